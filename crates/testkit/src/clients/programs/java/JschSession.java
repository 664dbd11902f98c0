import com.jcraft.jsch.ChannelSftp;
import com.jcraft.jsch.JSch;
import com.jcraft.jsch.Session;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Vector;

/** JSch: PORT, ACCOUNT, PASSWORD, KNOWN_HOSTS. */
final class JschSession implements Clients.Session {
    private final Session session;
    private final ChannelSftp sftp;

    JschSession(List<String> login) throws Exception {
        JSch library = new JSch();
        library.setKnownHosts(login.get(3));
        session = library.getSession(login.get(1), "127.0.0.1", Integer.parseInt(login.get(0)));
        session.setPassword(login.get(2));
        session.connect(30_000);
        sftp = (ChannelSftp) session.openChannel("sftp");
        sftp.connect(30_000);
    }

    /** Every path is a pattern to JSch. */
    private static String literal(String path) {
        return path.replaceAll("[\\\\*?]", "\\\\$0");
    }

    private void put(String local, String remote, int mode) throws Exception {
        try (InputStream source = new FileInputStream(local)) {
            sftp.put(source, literal(remote), mode);
        }
    }

    private void get(String remote, String local) throws Exception {
        try (OutputStream target = new FileOutputStream(local)) {
            sftp.get(literal(remote), target);
        }
    }

    private void resumeDown(String remote, String local) throws Exception {
        long have = new File(local).length();
        try (OutputStream target = new FileOutputStream(local, true)) {
            sftp.get(literal(remote), target, null, ChannelSftp.RESUME, have);
        }
    }

    private List<ChannelSftp.LsEntry> entries(String remote) throws Exception {
        List<ChannelSftp.LsEntry> entries = new ArrayList<>();
        Vector<?> listed = sftp.ls(literal(remote));
        for (Object entry : listed) {
            String name = ((ChannelSftp.LsEntry) entry).getFilename();
            if (!name.equals(".") && !name.equals("..")) {
                entries.add((ChannelSftp.LsEntry) entry);
            }
        }
        return entries;
    }

    private void putTree(File local, String remote) throws Exception {
        sftp.mkdir(remote);
        for (File here : local.listFiles()) {
            String there = remote + "/" + here.getName();
            if (here.isDirectory()) {
                putTree(here, there);
            } else {
                put(here.getPath(), there, ChannelSftp.OVERWRITE);
            }
        }
    }

    private void getTree(String remote, File local) throws Exception {
        if (!local.mkdir()) {
            throw new java.io.IOException("cannot make " + local);
        }
        for (ChannelSftp.LsEntry entry : entries(remote)) {
            String there = remote + "/" + entry.getFilename();
            File here = new File(local, entry.getFilename());
            if (entry.getAttrs().isDir()) {
                getTree(there, here);
            } else {
                get(there, here.getPath());
            }
        }
    }

    @Override
    public List<String> run(String verb, List<String> words) throws Exception {
        String one = words.get(0);
        String other = words.size() > 1 ? words.get(1) : null;
        List<String> printed = new ArrayList<>();
        switch (verb) {
            case "put" -> put(one, other, ChannelSftp.OVERWRITE);
            case "get" -> get(other, one);
            case "resume_up" -> put(one, other, ChannelSftp.RESUME);
            case "resume_down" -> resumeDown(other, one);
            case "put_tree" -> putTree(new File(one), other);
            case "get_tree" -> getTree(other, new File(one));
            case "put_times" -> {
                put(one, other, ChannelSftp.OVERWRITE);
                sftp.setMtime(literal(other), (int) (new File(one).lastModified() / 1000));
            }
            case "get_times" -> {
                get(other, one);
                long seconds = sftp.stat(literal(other)).getMTime();
                if (!new File(one).setLastModified(seconds * 1000)) {
                    throw new java.io.IOException("cannot set the time of " + one);
                }
            }
            case "rename" -> sftp.rename(literal(one), literal(other));
            case "list" -> entries(one).forEach(entry -> printed.add(entry.getFilename()));
            case "symlink" -> sftp.symlink(literal(one), literal(other));
            case "readlink" -> printed.add(sftp.readlink(literal(one)));
            default -> throw new IllegalArgumentException("no verb " + verb);
        }
        return printed;
    }

    @Override
    public void close() {
        session.disconnect();
    }
}

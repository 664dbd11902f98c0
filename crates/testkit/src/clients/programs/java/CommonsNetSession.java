import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.commons.net.ftp.FTP;
import org.apache.commons.net.ftp.FTPClient;
import org.apache.commons.net.ftp.FTPFile;
import org.apache.commons.net.ftp.FTPSClient;

/**
 * Apache Commons Net: HOST, PORT, ACCOUNT, PASSWORD, `clear`, `explicit` or `implicit`, the file
 * with the certificate, `active` or `passive`, `binary` or `text`.
 */
final class CommonsNetSession implements Clients.Session {
    private final FTPClient ftp;

    CommonsNetSession(List<String> login) throws Exception {
        String protection = login.get(4);
        ftp = protection.equals("clear") ? new FTPClient() : encrypted(login);
        ftp.setConnectTimeout(30_000);
        ftp.setDefaultTimeout(30_000);
        ftp.setDataTimeout(java.time.Duration.ofSeconds(30));
        ftp.setControlEncoding("UTF-8");
        ftp.connect(login.get(0), Integer.parseInt(login.get(1)));
        must(ftp.login(login.get(2), login.get(3)));
        if (ftp instanceof FTPSClient encrypted) {
            encrypted.execPBSZ(0);
            encrypted.execPROT("P");
        }
        if (login.get(6).equals("passive")) {
            ftp.enterLocalPassiveMode();
        } else {
            ftp.enterLocalActiveMode();
        }
        must(ftp.setFileType(login.get(7).equals("text") ? FTP.ASCII_FILE_TYPE : FTP.BINARY_FILE_TYPE));
    }

    private static FTPSClient encrypted(List<String> login) throws Exception {
        KeyStore known = KeyStore.getInstance(KeyStore.getDefaultType());
        known.load(null);
        try (InputStream file = new FileInputStream(login.get(5))) {
            Certificate certificate = CertificateFactory.getInstance("X.509").generateCertificate(file);
            known.setCertificateEntry("server", certificate);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(known);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        FTPSClient client = new FTPSClient(login.get(4).equals("implicit"), context);
        client.setEndpointCheckingEnabled(true);
        return client;
    }

    private void must(boolean done) throws IOException {
        if (!done) {
            throw new IOException(ftp.getReplyString());
        }
    }

    private void put(String local, String remote, long from) throws IOException {
        try (FileInputStream source = new FileInputStream(local)) {
            source.getChannel().position(from);
            ftp.setRestartOffset(from);
            must(ftp.storeFile(remote, source));
        }
    }

    private void append(String local, String remote, long from) throws IOException {
        try (FileInputStream source = new FileInputStream(local)) {
            source.getChannel().position(from);
            must(ftp.appendFile(remote, source));
        }
    }

    private void get(String remote, String local, long from) throws IOException {
        try (OutputStream target = new FileOutputStream(local, from > 0)) {
            ftp.setRestartOffset(from);
            must(ftp.retrieveFile(remote, target));
        }
    }

    private long size(String remote) throws IOException {
        return Long.parseLong(ftp.getSize(remote));
    }

    private void putTree(File local, String remote) throws IOException {
        must(ftp.makeDirectory(remote));
        for (File here : local.listFiles()) {
            String there = remote + "/" + here.getName();
            if (here.isDirectory()) {
                putTree(here, there);
            } else {
                put(here.getPath(), there, 0);
            }
        }
    }

    private void getTree(String remote, File local) throws IOException {
        if (!local.mkdir()) {
            throw new IOException("cannot make " + local);
        }
        for (FTPFile entry : ftp.listFiles(remote)) {
            String there = remote + "/" + entry.getName();
            File here = new File(local, entry.getName());
            if (entry.isDirectory()) {
                getTree(there, here);
            } else {
                get(there, here.getPath(), 0);
            }
        }
    }

    /** What one session is asked for in a row: uploads, appends, a list, a resume, names. */
    private List<String> inOneSession(String local, String folder) throws IOException {
        must(ftp.makeDirectory(folder));
        must(ftp.changeWorkingDirectory(folder));
        for (int number = 0; number < 5; number++) {
            put(local, "sent" + number, 0);
        }
        append(local, "sent0", 0);
        get("sent1", local + ".back", 0);
        try (FileOutputStream half = new FileOutputStream(local + ".back", true)) {
            half.getChannel().truncate(size("sent1") / 2);
        }
        get("sent1", local + ".back", size("sent1") / 2);
        must(ftp.rename("sent2", "sent3"));
        must(ftp.deleteFile("sent4"));
        must(ftp.sendNoOp());
        List<String> facts = new ArrayList<>();
        for (FTPFile file : ftp.mlistDir()) {
            if (file.isFile()) {
                facts.add(file.getName() + " " + file.getSize());
            }
        }
        List<String> listed = new ArrayList<>();
        for (FTPFile file : ftp.listFiles()) {
            listed.add(file.getName() + " " + file.getSize());
        }
        if (!listed.containsAll(facts) || listed.size() != facts.size()) {
            throw new IOException("MLSD says " + facts + ", LIST " + listed);
        }
        return facts;
    }

    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyyMMddHHmmss").withZone(ZoneOffset.UTC);

    @Override
    public List<String> run(String verb, List<String> words) throws Exception {
        String one = words.get(0);
        String other = words.size() > 1 ? words.get(1) : null;
        List<String> printed = new ArrayList<>();
        switch (verb) {
            case "put" -> put(one, other, 0);
            case "get" -> get(other, one, 0);
            case "resume_up" -> put(one, other, size(other));
            case "append" -> append(one, other, size(other));
            case "resume_down" -> get(other, one, new File(one).length());
            case "put_tree" -> putTree(new File(one), other);
            case "get_tree" -> getTree(other, new File(one));
            case "put_times" -> {
                put(one, other, 0);
                Instant when = Instant.ofEpochMilli(new File(one).lastModified());
                must(ftp.setModificationTime(other, TIME.format(when)));
            }
            case "get_times" -> {
                get(other, one, 0);
                Instant when = ftp.mdtmInstant(other);
                if (!new File(one).setLastModified(when.toEpochMilli())) {
                    throw new IOException("cannot set the time of " + one);
                }
            }
            case "rename" -> must(ftp.rename(one, other));
            case "list" -> {
                for (FTPFile entry : ftp.listFiles(one)) {
                    printed.add(entry.getName());
                }
            }
            case "in_one_session" -> printed.addAll(inOneSession(one, other));
            default -> throw new IllegalArgumentException("no verb " + verb);
        }
        return printed;
    }

    @Override
    public void close() throws IOException {
        ftp.logout();
        ftp.disconnect();
    }
}

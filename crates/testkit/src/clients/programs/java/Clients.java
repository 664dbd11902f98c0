import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Java clients of the matrix in one virtual machine, which takes longer to start than most tasks.
 * A line of standard input is a task, its words divided by tabs: `jsch` or `commons-net`, how to
 * log in, the verb and its arguments. The answer is the lines that the task printed, each behind a
 * plus sign, then a full stop or an exclamation mark and the reason of the failure.
 */
public final class Clients {
    /** A session of one of the libraries. */
    interface Session extends Closeable {
        List<String> run(String verb, List<String> words) throws Exception;
    }

    private static List<String> task(List<String> words) throws Exception {
        String library = words.get(0);
        int login = library.equals("jsch") ? 4 : 8;
        List<String> how = words.subList(1, 1 + login);
        List<String> rest = words.subList(2 + login, words.size());
        try (Session session = library.equals("jsch") ? new JschSession(how) : new CommonsNetSession(how)) {
            return session.run(words.get(1 + login), rest);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        InputStreamReader bytes = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(bytes);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                List<String> printed = new ArrayList<>(task(Arrays.asList(line.split("\t", -1))));
                printed.forEach(text -> out.println("+" + text));
                out.println(".");
            } catch (Exception failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                out.println("!" + trace.toString().replace('\n', '|'));
            }
        }
    }
}

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A broker for a test, on free ports, whose data goes with it. KOHORT names the command. */
final class Broker implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("^kohort ready kafka=(\\S+) http=\\S+ control=(\\S+).*");

    /** Where Kafka clients connect. */
    final String kafka;

    private final String control;
    private final Process process;
    private final HttpClient http = HttpClient.newHttpClient();

    Broker() throws IOException {
        String kohort = System.getenv().getOrDefault("KOHORT", "kohort");
        process = new ProcessBuilder(List.of(kohort, "serve", "--ephemeral", "--control", "127.0.0.1:0"))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
        String line = lines.readLine();
        Matcher found = READY.matcher(line == null ? "" : line);
        if (!found.matches()) {
            throw new IOException("the broker ended before it was ready");
        }
        kafka = found.group(1);
        control = found.group(2);
    }

    /** Ask the control port: a body in JSON, the answer in JSON. A failed expectation says what was seen instead. */
    String post(String path, String body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + control + path))
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new AssertionError(answer.body());
        }
        return answer.body();
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.GZIPInputStream;
import java.util.zip.InflaterInputStream;

/**
 * A server on the JDK alone, as lenient as what one finds: the charset is what Content-Type says, or else guessed from the
 * first bytes, as Jackson does; comments, single quotes and what follows the first value pass; names are taken whatever
 * their case, and of two the first counts.
 */
public class Peer {
    private static Path notes;

    public static void main(String[] arguments) throws IOException {
        notes = Path.of(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", Peer::serve);
        server.start();
        System.out.println("listening " + server.getAddress().getPort());
    }

    private static synchronized void note(String line) throws IOException {
        Files.writeString(notes, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static void serve(HttpExchange exchange) throws IOException {
        note("{\"arrived\":" + quoted(exchange.getRequestMethod()) + "}");
        int status = 202;
        byte[] told = new byte[0];
        try {
            Map<String, Object> message = object(new Reader(text(exchange)).value());
            Object id = member(message, "id");
            if ("tools/call".equals(member(message, "method"))) run(object(member(message, "params")));
            if (id != null) {
                String shown = id instanceof String string ? quoted(string) : id.toString();
                String result = "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}";
                told = ("{\"jsonrpc\":\"2.0\",\"id\":" + shown + ",\"result\":" + result + "}").getBytes(StandardCharsets.UTF_8);
                status = 200;
                exchange.getResponseHeaders().set("Content-Type", "application/json");
            }
        } catch (RuntimeException | IOException error) {
            status = 400;
        }
        exchange.sendResponseHeaders(status, told.length == 0 ? -1 : told.length);
        exchange.getResponseBody().write(told);
        exchange.close();
    }

    private static void run(Map<String, Object> params) throws IOException {
        Map<String, Object> found = object(member(params, "arguments"));
        String to = (String) member(found, "to");
        Object amount = member(found, "amount");
        String shown = "{\"to\":" + quoted(to) + ",\"amount\":" + shown(amount) + "}";
        note("{\"name\":" + quoted((String) member(params, "name")) + ",\"arguments\":" + shown + "}");
    }

    private static String shown(Object amount) {
        if (amount == null) return "0";
        String written = amount.toString();
        return written.matches("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?") ? written : quoted(written);
    }

    private static String text(HttpExchange exchange) throws IOException {
        String coding = exchange.getRequestHeaders().getFirst("Content-Encoding");
        InputStream body = exchange.getRequestBody();
        if ("gzip".equalsIgnoreCase(coding)) body = new GZIPInputStream(body);
        if ("deflate".equalsIgnoreCase(coding)) body = new InflaterInputStream(body);
        byte[] bytes = body.readAllBytes();
        String type = exchange.getRequestHeaders().getFirst("Content-Type");
        int named = type == null ? -1 : type.toLowerCase().indexOf("charset=");
        if (named >= 0) {
            String charset = type.substring(named + 8).split("[;,]")[0].replace("\"", "").strip();
            if (Charset.isSupported(charset)) return new String(bytes, Charset.forName(charset));
        }
        return new String(bytes, guessed(bytes)).replaceFirst("^\uFEFF", "");
    }

    private static Charset guessed(byte[] bytes) {
        if (bytes.length > 3 && bytes[0] == 0 && bytes[1] == 0) return Charset.forName("UTF-32BE");
        if (bytes.length > 3 && bytes[2] == 0 && bytes[3] == 0) return Charset.forName("UTF-32LE");
        if (bytes.length > 1 && (bytes[0] == 0 || (bytes[0] == -2 && bytes[1] == -1))) return StandardCharsets.UTF_16BE;
        if (bytes.length > 1 && (bytes[1] == 0 || (bytes[0] == -1 && bytes[1] == -2))) return StandardCharsets.UTF_16LE;
        return StandardCharsets.UTF_8;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    private static Object member(Map<String, Object> object, String name) {
        for (Map.Entry<String, Object> each : object.entrySet()) {
            if (each.getKey().equalsIgnoreCase(name)) return each.getValue();
        }
        return null;
    }

    private static String quoted(String text) {
        if (text == null) return "null";
        StringBuilder out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each < 127 && each != '"' && each != '\\';
            out.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        }
        return out.append('"').toString();
    }

    /** Reads one value; numbers stay as they are written. */
    private static final class Reader {
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        Object value() {
            blanks();
            char first = text.charAt(at);
            if (first == '{') return members();
            if (first == '[') return elements();
            if (first == '"' || first == '\'') return string();
            int begin = at;
            while (at < text.length() && ",]} \t\r\n/".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(begin, at);
            return word.equals("null") ? null : new Word(word);
        }

        private Map<String, Object> members() {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            for (blanks(); text.charAt(at) != '}'; blanks()) {
                String name = string();
                blanks();
                expect(':');
                found.putIfAbsent(name, value());
                blanks();
                if (text.charAt(at) == ',') at++;
            }
            at++;
            return found;
        }

        private Object elements() {
            at++;
            for (blanks(); text.charAt(at) != ']'; blanks()) {
                value();
                blanks();
                if (text.charAt(at) == ',') at++;
            }
            at++;
            return new Word("[]");
        }

        private String string() {
            char quote = text.charAt(at++);
            if (quote != '"' && quote != '\'') throw new IllegalArgumentException("no string");
            StringBuilder out = new StringBuilder();
            for (char each = text.charAt(at++); each != quote; each = text.charAt(at++)) {
                if (each != '\\') {
                    out.append(each);
                    continue;
                }
                char escaped = text.charAt(at++);
                int known = "bfnrt".indexOf(escaped);
                if (escaped == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    out.append(known >= 0 ? "\b\f\n\r\t".charAt(known) : escaped);
                }
            }
            return out.toString();
        }

        private void expect(char wanted) {
            if (text.charAt(at++) != wanted) throw new IllegalArgumentException("no " + wanted);
        }

        private void blanks() {
            while (at < text.length()) {
                if (text.startsWith("/*", at)) at = text.indexOf("*/", at) + 2;
                else if (text.startsWith("//", at)) at = text.indexOf('\n', at) + 1;
                else if (Character.isWhitespace(text.charAt(at)) || text.charAt(at) == '\uFEFF') at++;
                else return;
            }
        }
    }

    /** A number, true or false, as it is written. */
    private record Word(String written) {
        @Override
        public String toString() {
            return written;
        }
    }
}

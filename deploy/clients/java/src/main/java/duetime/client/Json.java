package duetime.client;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * As much JSON as the client needs, so that it depends on nothing. Objects are maps, arrays lists, numbers Long, BigInteger or Double. What stands in
 * a {@link Raw} is JSON already: a payload goes out and comes back byte for byte.
 */
public final class Json {
  /** A text that is JSON. */
  record Raw(String text) {}

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** The value of the text; an IllegalArgumentException says where it is no JSON. */
  public static Object parse(String text) {
    return new Json(text).whole(false);
  }

  /** The same of an answer: the member "payload" of a job, or of each of "jobs", stays as it is written. */
  static Map<String, Object> parseAnswer(String text) {
    return object(new Json(text).whole(true));
  }

  private Object whole(boolean job) {
    Object value = value(job);
    skipSpace();
    if (at != text.length()) {
      throw wrong("more than one value");
    }
    return value;
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object value) {
    return value instanceof Map ? (Map<String, Object>) value : Map.of();
  }

  @SuppressWarnings("unchecked")
  static List<Object> array(Object value) {
    return value instanceof List ? (List<Object>) value : List.of();
  }

  static String write(Object value) {
    StringBuilder out = new StringBuilder(128);
    write(out, value);
    return out.toString();
  }

  // ---- writing ----

  private static void write(StringBuilder out, Object value) {
    if (value == null || value instanceof Number || value instanceof Boolean) {
      out.append(value);
    } else if (value instanceof Raw raw) {
      out.append(raw.text().indexOf('\n') < 0 ? raw.text() : oneLine(raw.text()));
    } else if (value instanceof Map<?, ?> map) {
      writeObject(out, map);
    } else if (value instanceof Iterable<?> values) {
      writeArray(out, values);
    } else {
      writeString(out, value.toString());
    }
  }

  /** A newline in JSON is space between tokens, since in a string it is escaped; in NDJSON it would end the line. */
  private static String oneLine(String text) {
    return text.replace('\n', ' ');
  }

  private static void writeObject(StringBuilder out, Map<?, ?> map) {
    char before = '{';
    for (Map.Entry<?, ?> entry : map.entrySet()) {
      out.append(before);
      writeString(out, entry.getKey().toString());
      out.append(':');
      write(out, entry.getValue());
      before = ',';
    }
    out.append(before == '{' ? "{}" : "}");
  }

  private static void writeArray(StringBuilder out, Iterable<?> values) {
    char before = '[';
    for (Object value : values) {
      out.append(before);
      write(out, value);
      before = ',';
    }
    out.append(before == '[' ? "[]" : "]");
  }

  private static void writeString(StringBuilder out, String string) {
    out.append('"');
    for (int i = 0; i < string.length(); i++) {
      char c = string.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  // ---- reading ----

  private Object value(boolean job) {
    skipSpace();
    return switch (peek()) {
      case '{' -> readObject(job);
      case '[' -> readArray(job);
      case '"' -> readString();
      case 't' -> word("true", Boolean.TRUE);
      case 'f' -> word("false", Boolean.FALSE);
      case 'n' -> word("null", null);
      default -> readNumber();
    };
  }

  private Map<String, Object> readObject(boolean job) {
    Map<String, Object> object = new LinkedHashMap<>();
    for (boolean more = opens('}'); more; more = goesOn('}')) {
      skipSpace();
      String name = readString();
      skipSpace();
      expect(':');
      object.put(name, job && name.equals("payload") ? raw() : value(job && name.equals("jobs")));
    }
    return object;
  }

  private List<Object> readArray(boolean job) {
    List<Object> array = new ArrayList<>();
    for (boolean more = opens(']'); more; more = goesOn(']')) {
      array.add(value(job));
    }
    return array;
  }

  private Raw raw() {
    skipSpace();
    int begin = at;
    value(false);
    return new Raw(text.substring(begin, at));
  }

  /** Past the opening bracket: whether there is an element. */
  private boolean opens(char end) {
    at++;
    skipSpace();
    return !takes(end);
  }

  private boolean goesOn(char end) {
    skipSpace();
    if (takes(end)) {
      return false;
    }
    expect(',');
    return true;
  }

  private String readString() {
    expect('"');
    int begin = at;
    while (peek() != '"' && text.charAt(at) != '\\') {
      at++;
    }
    if (text.charAt(at) == '"') {
      return text.substring(begin, at++);
    }
    StringBuilder string = new StringBuilder().append(text, begin, at);
    while (peek() != '"') {
      char c = text.charAt(at++);
      string.append(c == '\\' ? escaped() : c);
    }
    at++;
    return string.toString();
  }

  private char escaped() {
    char c = peek();
    at++;
    return switch (c) {
      case 'n' -> '\n';
      case 't' -> '\t';
      case 'r' -> '\r';
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'u' -> hex();
      default -> c;
    };
  }

  private char hex() {
    if (at + 4 > text.length()) {
      throw wrong("the text ends");
    }
    at += 4;
    return (char) Integer.parseInt(text, at - 4, at, 16);
  }

  private Object readNumber() {
    int begin = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String number = text.substring(begin, at);
    try {
      if (!number.matches("-?\\d+")) {
        return Double.valueOf(number);
      }
      BigInteger integer = new BigInteger(number);
      return integer.bitLength() < Long.SIZE ? (Object) integer.longValue() : (Object) integer;
    } catch (NumberFormatException e) {
      throw wrong("no value");
    }
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw wrong("no value");
    }
    at += word.length();
    return value;
  }

  private void skipSpace() {
    while (at < text.length() && text.charAt(at) <= ' ') {
      at++;
    }
  }

  private char peek() {
    if (at >= text.length()) {
      throw wrong("the text ends");
    }
    return text.charAt(at);
  }

  private boolean takes(char c) {
    boolean is = peek() == c;
    at += is ? 1 : 0;
    return is;
  }

  private void expect(char c) {
    if (!takes(c)) {
      throw wrong("no " + c);
    }
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException(what + " at " + at + " of the JSON text");
  }
}

package duetime.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** A door before the API that tests can close: it passes bytes, counts connections and requests, loses answers, or answers itself. */
final class Door implements AutoCloseable {
  final AtomicInteger connections = new AtomicInteger();
  final AtomicInteger requests = new AtomicInteger();
  final AtomicInteger lose = new AtomicInteger();
  final Queue<String> answers = new ConcurrentLinkedQueue<>();
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private final URI server;
  private ServerSocket listener;

  Door(String url) throws IOException {
    server = URI.create(url);
    listen(0);
  }

  String url() {
    return "http://127.0.0.1:" + listener.getLocalPort();
  }

  int port() {
    return listener.getLocalPort();
  }

  void listen(int port) throws IOException {
    ServerSocket made = new ServerSocket(port, 100, InetAddress.getLoopbackAddress());
    listener = made;
    start(() -> {
      while (true) {
        enter(made.accept());
      }
    });
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }

  private void enter(Socket client) throws IOException {
    Socket there = new Socket(server.getHost(), server.getPort());
    for (Socket socket : new Socket[] {client, there}) {
      socket.setTcpNoDelay(true);
      sockets.add(socket);
    }
    connections.incrementAndGet();
    start(() -> pass(client, there, this::isPassed));
    start(() -> pass(there, client, bytes -> lose.getAndUpdate(n -> Math.max(0, n - 1)) == 0 ? Way.ON : Way.END));
  }

  private enum Way {
    ON,
    ANSWERED,
    END
  }

  private interface Judge {
    Way of(String bytes);
  }

  private boolean begins(String bytes) {
    return bytes.matches("(?s)(GET|POST|PATCH) .*");
  }

  private Way isPassed(String bytes) {
    if (!begins(bytes)) {
      return null; // as the bytes before it
    }
    requests.incrementAndGet();
    return answers.isEmpty() ? Way.ON : Way.ANSWERED;
  }

  private void pass(Socket from, Socket to, Judge judge) throws IOException {
    try (from; to) {
      byte[] bytes = new byte[1 << 16];
      Way way = Way.ON;
      for (int n = from.getInputStream().read(bytes); n > 0 && way != Way.END; n = from.getInputStream().read(bytes)) {
        Way now = judge.of(new String(bytes, 0, Math.min(n, 8), StandardCharsets.ISO_8859_1));
        way = now == null ? way : now;
        if (now == Way.ANSWERED) {
          from.getOutputStream().write(answers.remove().getBytes(StandardCharsets.ISO_8859_1));
        } else if (way == Way.ON) {
          to.getOutputStream().write(bytes, 0, n);
        } else if (way == Way.END) {
          return;
        }
      }
    } finally {
      sockets.remove(from);
    }
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (IOException e) {
        // closed
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  /** An answer as the server's own. */
  static String answerOf(int status, String slug, String headers) {
    String body = "{\"type\":\"/problems/" + slug + "\",\"status\":" + status + "}";
    return "HTTP/1.1 " + status + " X\r\n" + headers + "Content-Type: application/problem+json\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
  }
}

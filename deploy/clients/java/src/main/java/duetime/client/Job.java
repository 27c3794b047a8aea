package duetime.client;

import java.time.Instant;
import java.util.Base64;
import java.util.Map;

/** A job as the server told it. */
public final class Job {
  private final Map<String, Object> members;

  Job(Map<String, Object> members) {
    this.members = members;
  }

  public String id() {
    return (String) members.get("id");
  }

  public String topic() {
    return (String) members.get("topic");
  }

  /** Or null. */
  public String key() {
    return (String) members.get("key");
  }

  /** scheduled, dispatched, succeeded, dead or cancelled. */
  public String state() {
    return (String) members.get("state");
  }

  public int attempt() {
    return ((Number) members.get("attempt")).intValue();
  }

  public long version() {
    return ((Number) members.get("version")).longValue();
  }

  public Instant runAt() {
    return instant("run_at");
  }

  public Instant nextAt() {
    return instant("next_at");
  }

  /** Of a job that was popped: report by then, or report "extended". */
  public Instant deadline() {
    return instant("deadline");
  }

  /** The JSON text of the payload, byte for byte as it was given; null of a payload of bytes. */
  public String payloadJson() {
    return members.get("payload") instanceof Json.Raw raw ? raw.text() : null;
  }

  /** The payload as maps, lists, texts, Long (BigInteger of an integer that is larger), Double and Boolean. */
  public Object payload() {
    return payloadJson() == null ? null : Json.parse(payloadJson());
  }

  /** A payload that was given as bytes; null of any other. */
  public byte[] payloadBytes() {
    return members.get("payload_base64") instanceof String text ? Base64.getDecoder().decode(text) : null;
  }

  /** Any member by its name in the REST API. */
  public Object member(String name) {
    return members.get(name);
  }

  private Instant instant(String name) {
    return members.get(name) instanceof String text ? Instant.parse(text) : null;
  }

  @Override
  public String toString() {
    return Json.write(members);
  }
}

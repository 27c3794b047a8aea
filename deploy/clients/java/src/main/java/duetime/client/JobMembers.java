package duetime.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a new job and a change of one have in common. Each method sets a member and gives the object back; null is the topic's default. */
abstract class JobMembers<T extends JobMembers<T>> {
  final Map<String, Object> members = new LinkedHashMap<>();

  abstract T self();

  T set(String name, Object value) {
    members.put(name, value);
    return self();
  }

  /** Due at this time; a past one means now. */
  public T runAt(Instant time) {
    return set("run_at", time.toString());
  }

  /** Due after this time. */
  public T delay(Duration delay) {
    return set("delay", delay.toMillis());
  }

  /** Maps, lists, texts, numbers and booleans, written as JSON. */
  public T payload(Object value) {
    return set("payload", value);
  }

  /** A text that is JSON already. */
  public T payloadJson(String json) {
    return set("payload", new Json.Raw(json));
  }

  /** Bytes of any kind. */
  public T payloadBytes(byte[] bytes, String contentType) {
    return set("payload_base64", Base64.getEncoder().encodeToString(bytes)).set("content_type", contentType);
  }

  public T partitionKey(String key) {
    return set("partition_key", key);
  }

  /** The pauses between attempts. */
  public T retry(List<Duration> delays) {
    return set("retry", delays == null ? null : delays.stream().map(Duration::toMillis).toList());
  }

  public T ackTimeout(Duration timeout) {
    return set("ack_timeout", timeout == null ? null : timeout.toMillis());
  }

  public T headers(Map<String, String> headers) {
    return set("headers", headers);
  }

  public T callbackUrl(String url) {
    return set("callback_url", url);
  }
}

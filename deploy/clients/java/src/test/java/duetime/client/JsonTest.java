package duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
  @Test
  void whatIsWrittenIsReadAgain() {
    Map<String, Object> value = Map.of("text", "a\"b\\c\n\u0001\u00e4\ud83d\ude00", "list", Arrays.asList(1L, -2.5, true, null, List.of(), Map.of()));
    assertEquals(value, Json.parse(Json.write(value)));
  }

  @Test
  void whatIsReadIsAsRfc8259Says() {
    assertEquals(List.of("\b\f\r\t/\u00e9", 1e3, 0L), Json.parse(" [ \"\\b\\f\\r\\t\\/\\u00e9\" , 1e3,0 ] "));
    for (String wrong : List.of("", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"a", "\"\\u00", "-", "{1:2}")) {
      assertThrows(IllegalArgumentException.class, () -> Json.parse(wrong), wrong);
    }
  }

  @Test
  void aPayloadStaysAsItIsWritten() {
    Map<String, Object> job = Json.parseAnswer("{\"payload\": {\"a\":1.00, \"payload\":[ ]},\"headers\":{\"payload\":\"x\"}}");
    assertEquals("{\"a\":1.00, \"payload\":[ ]}", new Job(job).payloadJson());
    assertEquals(Map.of("a", 1.0, "payload", List.of()), new Job(job).payload());
    assertEquals(Map.of("payload", "x"), job.get("headers"));
    Map<String, Object> popped = Json.parseAnswer("{\"jobs\":[{\"payload\":1.0}]}");
    assertEquals("1.0", new Job(Json.object(Json.array(popped.get("jobs")).get(0))).payloadJson());
  }

  @Test
  void aTextThatIsJsonStaysOnOneLine() {
    assertEquals("{\"payload\":{ \"a\": 1}}", Json.write(new JobChanges().payloadJson("{\n\"a\": 1}").members));
  }
}

package duetime.examples;

import duetime.client.Report;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A consumer of Kafka: Consumer TOPIC. It reads committed messages, works, reports, and only then commits its offsets: whatever dies in between
 * comes again, and is known by its attempt ({@link Orders}).
 */
final class Consumer {
  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private final Orders orders = new Orders();

  private Consumer(String brokers, String topic) throws Exception {
    Map<String, Object> in = Map.of(
        "bootstrap.servers", brokers,
        "group.id", "orders-" + topic,
        "isolation.level", "read_committed",
        "auto.offset.reset", "earliest",
        "enable.auto.commit", false,
        "allow.auto.create.topics", false,
        "session.timeout.ms", 6_000, // so long after a kill -9 its partitions wait for the next consumer
        "heartbeat.interval.ms", 1_000,
        "metadata.max.age.ms", 1_000); // the topic is made when its first job is due
    consumer = new KafkaConsumer<>(in, new StringDeserializer(), new StringDeserializer());
    producer = new KafkaProducer<>(Map.of("bootstrap.servers", brokers, "acks", "all"), new StringSerializer(), new StringSerializer());
    consumer.subscribe(List.of(topic));
  }

  private static String header(ConsumerRecord<?, ?> message, String name) {
    return new String(message.headers().lastHeader(name).value(), StandardCharsets.UTF_8);
  }

  private void attend(Iterable<ConsumerRecord<String, String>> messages) throws Exception {
    List<Future<RecordMetadata>> reports = new ArrayList<>();
    for (ConsumerRecord<String, String> message : messages) {
      String job = header(message, "ce_jobid");
      Optional<Report> report = orders.attend(job, Integer.parseInt(header(message, "ce_attempt")), message.value());
      report.ifPresent(one -> reports.add(producer.send(new ProducerRecord<>("duetime.results", job, one.toString()))));
    }
    for (Future<RecordMetadata> sent : reports) {
      sent.get();
    }
    consumer.commitSync();
  }

  private void run() throws Exception {
    try (consumer; producer) {
      while (true) {
        attend(consumer.poll(Duration.ofSeconds(1)));
      }
    } catch (WakeupException ended) {
      // by the signal
    }
  }

  public static void main(String[] words) throws Exception {
    Consumer consumer = new Consumer(System.getenv("DUETIME_KAFKA"), words[0]);
    Ending.onSignal(consumer.consumer::wakeup);
    consumer.run();
    Ending.done();
  }
}

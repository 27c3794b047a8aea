package bench;

import duetime.client.Duetime;
import duetime.client.NewJob;
import java.time.Instant;
import java.util.function.LongConsumer;

/** Our own client, for the intake alone: jobs go to the topic PEER_TOPIC of the API at DUETIME_URL. */
final class DuetimePeer implements Peer {
  private final String topic = System.getenv("PEER_TOPIC");
  private final Duetime client = Duetime.builder(System.getenv("DUETIME_URL")).token(System.getenv("DUETIME_TOKEN")).build();

  @Override
  public void schedule(long number, long dueMs) {
    client.create(NewJob.of(topic).runAt(Instant.ofEpochMilli(dueMs)).payload(TEXT));
  }

  @Override
  public void work(LongConsumer executed) {
    throw new UnsupportedOperationException("its jobs are executed by consumers");
  }

  @Override
  public void close() {
    client.close();
  }
}

package duetime.client;

/** A job to make: a topic, when it is due (runAt or delay), and what else it has. */
public final class NewJob extends JobMembers<NewJob> {
  private NewJob(String topic) {
    set("topic", topic);
  }

  public static NewJob of(String topic) {
    return new NewJob(topic);
  }

  /** Names one job within the topic, so that making it can be repeated. */
  public NewJob key(String key) {
    return set("key", key);
  }

  @Override
  NewJob self() {
    return this;
  }
}

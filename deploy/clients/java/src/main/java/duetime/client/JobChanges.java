package duetime.client;

/** What is to change of a scheduled job; what is not set stays. */
public final class JobChanges extends JobMembers<JobChanges> {
  @Override
  JobChanges self() {
    return this;
  }
}

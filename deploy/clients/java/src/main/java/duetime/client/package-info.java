/** A client of duetime: {@link duetime.client.Duetime} makes jobs, changes and cancels them, pops and reports. */
package duetime.client;

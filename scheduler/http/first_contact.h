/*
 * First contact with hosts that speak TLS. Of the requests to a host without a connection one goes first, and the
 * others wait until its connection stands: then they share the connection where HTTP/2 was agreed, and open their own
 * where it was not. Without this, a burst opens as many connections as it has requests. Knows neither libcurl nor lists
 * of waiting exchanges; time is passed in. All functions are called by the client's thread.
 */
#ifndef DT_FIRST_CONTACT_H
#define DT_FIRST_CONTACT_H

#include "base/strbuf.h"

#define DT_CONTACT_WAIT_US (INT64_C(1) * 1000000) /* nobody waits longer for another request's connection */

struct dt_client_exchange;
struct dt_contact;
typedef struct dt_contacts dt_contacts;

DT_MUST_CHECK dt_status dt_contacts_new(dt_contacts **out);
void dt_contacts_free(dt_contacts *contacts); /* accepts NULL */

/*
 * Whether an exchange may begin now. False: it waits, until dt_contacts_next_made gives its contact, or for
 * DT_CONTACT_WAIT_US. It may begin when it is asked for a second time.
 */
bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us);
/* The exchange has ended, whether it began or waited. */
void dt_contact_leave(struct dt_client_exchange *exchange, int64_t now_us);
/* A contact (struct dt_client_exchange, contact) whose first connection stands now, or did not come about; NULL: no
 * further one. */
const struct dt_contact *dt_contacts_next_made(dt_contacts *contacts);

#endif

/* Settings of librdkafka from [kafka] client.*, and the handles that carry them. Included by kafka_*.c only. */
#ifndef DT_DISPATCHER_KAFKA_CLIENT_H
#define DT_DISPATCHER_KAFKA_CLIENT_H

#include <librdkafka/rdkafka.h>

#include "kafka.h"

/* Sets what the configuration says, files read anew. INVALID: as dt_kafka_check. */
DT_MUST_CHECK dt_status dt_kafka_client_set(rd_kafka_conf_t *conf, const struct dt_config *config,
                                            struct dt_error *err);
/* Rises with each dt_kafka_renew: a handle that was made before has the settings of before. */
unsigned dt_kafka_client_generation(void);
/* From entering to leaving a handle is told of new credentials; it leaves before it is destroyed. */
void dt_kafka_client_enter(rd_kafka_t *rk);
void dt_kafka_client_leave(rd_kafka_t *rk);

#endif

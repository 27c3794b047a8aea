<?php

/**
 * As much of ext-rdkafka as the example uses, by FFI on librdkafka: for machines whose package archive does not have the extension. Prepended
 * (-d auto_prepend_file=tests/RdKafka.php), it lets the example run as it is.
 */

declare(strict_types=1);

namespace RdKafka;

if (extension_loaded('rdkafka')) {
    return;
}

const DECLARATIONS = <<<'C'
    typedef struct rd_kafka_s rd_kafka_t;
    typedef struct rd_kafka_conf_s rd_kafka_conf_t;
    typedef struct rd_kafka_topic_s rd_kafka_topic_t;
    typedef struct rd_kafka_list_s rd_kafka_topic_partition_list_t;
    typedef struct rd_kafka_headers_s rd_kafka_headers_t;
    typedef struct {
        int err; rd_kafka_topic_t *rkt; int32_t partition; void *payload; size_t len; void *key; size_t key_len; int64_t offset; void *_private;
    } rd_kafka_message_t;
    rd_kafka_conf_t *rd_kafka_conf_new(void);
    int rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *why, size_t size);
    rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *conf, char *why, size_t size);
    int rd_kafka_poll_set_consumer(rd_kafka_t *rk);
    rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
    void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *list, const char *topic, int32_t partition);
    int rd_kafka_subscribe(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *topics);
    rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms);
    int rd_kafka_message_headers(const rd_kafka_message_t *message, rd_kafka_headers_t **headers);
    int rd_kafka_header_get_all(const rd_kafka_headers_t *headers, size_t i, const char **name, const char **value, size_t *size);
    void rd_kafka_message_destroy(rd_kafka_message_t *message);
    int rd_kafka_commit(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets, int async);
    int rd_kafka_consumer_close(rd_kafka_t *rk);
    rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *rk, const char *topic, void *conf);
    int rd_kafka_produce(rd_kafka_topic_t *topic, int32_t partition, int flags, const char *payload, size_t len, const char *key,
                         size_t key_len, void *opaque);
    int rd_kafka_flush(rd_kafka_t *rk, int timeout_ms);
    C;
const COPIED = 2;
const RTLD_NOW_AND_NODELETE = 0x1002;

\define('RD_KAFKA_RESP_ERR_NO_ERROR', 0);
\define('RD_KAFKA_RESP_ERR__TIMED_OUT', -185);
\define('RD_KAFKA_PARTITION_UA', -1);

function library(): \FFI
{
    static $library = null;
    if ($library === null) {
        // FFI closes its libraries before the process ends, while librdkafka's threads still run in this one: it stays loaded.
        \FFI::cdef('void *dlopen(const char *name, int flags);')->dlopen('librdkafka.so.1', RTLD_NOW_AND_NODELETE);
        $library = \FFI::cdef(DECLARATIONS, 'librdkafka.so.1');
    }
    return $library;
}

function check(int $error): void
{
    if ($error !== 0) {
        throw new \RuntimeException("librdkafka: error $error");
    }
}

final class Conf
{
    public readonly \FFI\CData $handle;

    public function __construct()
    {
        $this->handle = library()->rd_kafka_conf_new();
    }

    public function set(string $name, string $value): void
    {
        $why = library()->new('char[500]');
        if (library()->rd_kafka_conf_set($this->handle, $name, $value, $why, 500) !== 0) {
            throw new \RuntimeException(\FFI::string($why));
        }
    }
}

function made(int $type, Conf $conf): \FFI\CData
{
    $why = library()->new('char[500]');
    return library()->rd_kafka_new($type, $conf->handle, $why, 500) ?? throw new \RuntimeException(\FFI::string($why));
}

final class Message
{
    /** @param array<string, string> $headers */
    public function __construct(public readonly int $err, public readonly ?string $payload = null, public readonly array $headers = [])
    {
    }

    public static function of(\FFI\CData $given): self
    {
        $payload = $given->payload === null ? null : \FFI::string($given->payload, $given->len);
        return new self($given->err, $payload, $given->err === 0 ? self::headersOf($given) : []);
    }

    /** @return array<string, string> */
    private static function headersOf(\FFI\CData $given): array
    {
        $all = library()->new('rd_kafka_headers_t *');
        if (library()->rd_kafka_message_headers($given, \FFI::addr($all)) !== 0) {
            return [];
        }
        $headers = [];
        [$name, $value, $size] = [library()->new('const char *'), library()->new('const char *'), library()->new('size_t')];
        for ($i = 0; library()->rd_kafka_header_get_all($all, $i, \FFI::addr($name), \FFI::addr($value), \FFI::addr($size)) === 0; $i++) {
            $headers[is_string($name) ? $name : \FFI::string($name)] = \FFI::string($value, $size->cdata);
        }
        return $headers;
    }
}

final class KafkaConsumer
{
    private readonly \FFI\CData $handle;

    public function __construct(Conf $conf)
    {
        $this->handle = made(1, $conf);
        check(library()->rd_kafka_poll_set_consumer($this->handle));
    }

    /** @param list<string> $topics */
    public function subscribe(array $topics): void
    {
        $list = library()->rd_kafka_topic_partition_list_new(count($topics));
        foreach ($topics as $topic) {
            library()->rd_kafka_topic_partition_list_add($list, $topic, RD_KAFKA_PARTITION_UA);
        }
        check(library()->rd_kafka_subscribe($this->handle, $list));
    }

    public function consume(int $milliseconds): Message
    {
        $given = library()->rd_kafka_consumer_poll($this->handle, $milliseconds);
        if ($given === null) {
            return new Message(RD_KAFKA_RESP_ERR__TIMED_OUT);
        }
        try {
            return Message::of($given);
        } finally {
            library()->rd_kafka_message_destroy($given);
        }
    }

    public function commit(): void
    {
        check(library()->rd_kafka_commit($this->handle, null, 0));
    }

    public function close(): void
    {
        check(library()->rd_kafka_consumer_close($this->handle));
    }
}

final class ProducerTopic
{
    public function __construct(private readonly \FFI\CData $handle)
    {
    }

    public function produce(int $partition, int $flags, string $payload, string $key): void
    {
        $length = strlen($payload);
        check(library()->rd_kafka_produce($this->handle, $partition, $flags | COPIED, $payload, $length, $key, strlen($key), null));
    }
}

final class Producer
{
    private readonly \FFI\CData $handle;

    public function __construct(Conf $conf)
    {
        $this->handle = made(0, $conf);
    }

    public function newTopic(string $name): ProducerTopic
    {
        return new ProducerTopic(library()->rd_kafka_topic_new($this->handle, $name, null));
    }

    public function flush(int $milliseconds): int
    {
        return library()->rd_kafka_flush($this->handle, $milliseconds);
    }
}

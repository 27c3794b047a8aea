<?php

/**
 * A consumer of Kafka: php consumer.php TOPIC. It reads committed messages, works, reports, and only then commits its offsets: whatever dies in
 * between comes again, and is known by its attempt (orders.php). Needs ext-rdkafka.
 */

declare(strict_types=1);

require __DIR__ . '/orders.php';

const BATCH = 100;

/** @param array<string, string> $settings */
function configuration(array $settings): RdKafka\Conf
{
    $configuration = new RdKafka\Conf();
    foreach (['bootstrap.servers' => getenv('DUETIME_KAFKA')] + $settings as $name => $value) {
        $configuration->set($name, $value);
    }
    return $configuration;
}

/** @return list<RdKafka\Message> at most a batch; none after a quiet tenth of a second */
function batch(RdKafka\KafkaConsumer $consumer): array
{
    $messages = [];
    while (count($messages) < BATCH) {
        $message = $consumer->consume($messages === [] ? 100 : 0);
        if ($message->err === RD_KAFKA_RESP_ERR__TIMED_OUT) {
            break;
        }
        if ($message->err === RD_KAFKA_RESP_ERR_NO_ERROR) {
            $messages[] = $message;
        }
    }
    return $messages;
}

$consumer = new RdKafka\KafkaConsumer(configuration([
    'group.id' => "orders-$argv[1]",
    'isolation.level' => 'read_committed',
    'enable.auto.commit' => 'false',
    'auto.offset.reset' => 'earliest',
    'session.timeout.ms' => '6000', // so long after a kill -9 its partitions wait for the next consumer
    'heartbeat.interval.ms' => '1000',
    'topic.metadata.refresh.interval.ms' => '1000', // the topic is made when its first job is due
]));
$producer = new RdKafka\Producer(configuration([]));
$results = $producer->newTopic('duetime.results');
$effects = new Orders\Effects();
$ending = false;
pcntl_async_signals(true);
foreach ([SIGTERM, SIGINT] as $signal) {
    pcntl_signal($signal, static function () use (&$ending): void {
        $ending = true;
    });
}

$consumer->subscribe([$argv[1]]);
while (!$ending) {
    $messages = batch($consumer);
    foreach ($messages as $message) {
        $order = (array) json_decode($message->payload, true);
        $report = Orders\attend($effects, $message->headers['ce_jobid'], (int) $message->headers['ce_attempt'], $order);
        if ($report !== null) {
            $results->produce(RD_KAFKA_PARTITION_UA, 0, json_encode($report), $report['job_id']);
        }
    }
    if ($messages !== []) {
        if ($producer->flush(60_000) !== RD_KAFKA_RESP_ERR_NO_ERROR) {
            throw new RuntimeException('reports did not reach Kafka; what was not committed comes again');
        }
        $consumer->commit();
    }
}
$consumer->close();

<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Exception\OutcomeUnknown;
use Duetime\Exception\Problem;
use Duetime\Exception\Unavailable;

/**
 * @internal Lines that wait until they are flushed, or are as many as one request may have. They leave as one batch; each has its own answer.
 * What is refused for the moment, or is repeatable and has an unknown outcome, is sent again until `timeout` seconds after the flush. Lines that wait
 * when the process forks are the parent's: in the child their outcome is unknown.
 */
final class Batcher
{
    /** @var list<Line> */
    private array $waiting = [];
    private int $bytes = 0;
    private int $process;

    /** @param \Closure(array<string, mixed>): mixed $read what a line's answer (status below 400) means */
    public function __construct(
        private readonly Transport $transport,
        private readonly string $path,
        private readonly \Closure $read,
        private readonly Limits $limits,
        private readonly float $timeout,
    ) {
        $this->process = getmypid();
    }

    /** @return Deferred<mixed> */
    public function add(string $data, bool $repeatable): Deferred
    {
        $this->leaveToParent();
        if ($this->waiting !== [] && $this->bytes + strlen($data) > $this->limits->batchBytes) {
            $this->flush();
        }
        $line = new Line($data, $repeatable, new Deferred($this->flush(...)));
        $this->waiting[] = $line;
        $this->bytes += strlen($data);
        if (count($this->waiting) >= $this->limits->batchLines) {
            $this->flush();
        }
        return $line->deferred;
    }

    /** Returns when every line that waits is settled. */
    public function flush(): void
    {
        $this->leaveToParent();
        [$batch, $this->waiting, $this->bytes] = [$this->waiting, [], 0];
        $deadline = Transport::now() + $this->timeout;
        for ($tries = 1; $batch !== []; $tries++) {
            [$batch, $retryAfter] = $this->send($batch, $deadline - Transport::now());
            $pause = Transport::pause($tries, $retryAfter);
            if (Transport::now() + $pause >= $deadline) {
                self::failLate($batch);
                return;
            }
            usleep($batch === [] ? 0 : (int) ($pause * 1e6));
        }
    }

    private function leaveToParent(): void
    {
        if ($this->process !== getmypid()) {
            foreach ($this->waiting as $line) {
                $line->fail(new OutcomeUnknown('the process was forked, and its parent sends this line'));
            }
            [$this->waiting, $this->bytes, $this->process] = [[], 0, getmypid()];
        }
    }

    /**
     * One request: the lines that are to be sent again, and the pause that the server asks for.
     *
     * @param list<Line> $batch
     * @return array{list<Line>, ?float}
     */
    private function send(array $batch, float $seconds): array
    {
        $body = implode('', array_map(static fn (Line $line): string => $line->data, $batch));
        $pause = null;
        try {
            $answer = $this->transport->ask('POST', $this->path, $body, $seconds, ['Content-Type' => 'application/x-ndjson']);
            $told = $answer->status === 200 ? $answer->lines() : [$answer->problem()];
            $pause = $answer->retryAfter;
        } catch (NoAnswer $none) {
            $told = [['status' => 503, 'type' => $none->doubted ? 'outcome-unknown' : 'unavailable', 'detail' => $none->getMessage()]];
        }
        $told = self::filled($told, count($batch));
        $again = [];
        foreach ($batch as $i => $line) {
            if (!$this->settle($line, $told[$i])) {
                $again[] = $line;
                $pause = max($pause, Answer::secondsOf($told[$i]['retry_after'] ?? '')) ?: null;
            }
        }
        return [$again, $pause];
    }

    /**
     * A result for each line. A batch that the server ended early has fewer: the last one is a problem, and holds for the rest. When that is 413,
     * the lines before it were made: what is left comes in a request of its own.
     *
     * @param list<array<string, mixed>> $told
     * @return list<array<string, mixed>>
     */
    private static function filled(array $told, int $count): array
    {
        $there = count($told);
        if ($there >= $count) {
            return $told;
        }
        $last = Answer::NO_RESULT;
        if ($there > 0 && ($told[$there - 1]['status'] ?? 0) >= 400) {
            $last = array_pop($told);
            $last['status'] = $last['status'] === 413 && $there > 1 ? 503 : $last['status'];
        }
        return array_pad($told, $count, $last);
    }

    /**
     * False for a line that is to be sent again.
     *
     * @param array<string, mixed> $told
     */
    private function settle(Line $line, array $told): bool
    {
        if ($told['status'] < 300) {
            $line->deferred->settle(($this->read)($told));
            return true;
        }
        $problem = Problem::of($told);
        $line->why = $problem->getMessage();
        if ($problem->isDoubted()) {
            $line->inDoubt = true;
            return !$line->repeatable && $line->fail(new OutcomeUnknown($line->why, $told['id'] ?? null));
        }
        return !Answer::refusedForNow($problem->status) && $line->fail($problem);
    }

    /** @param list<Line> $batch */
    private static function failLate(array $batch): void
    {
        foreach ($batch as $line) {
            $why = "the deadline passed: $line->why";
            $line->fail($line->inDoubt ? new OutcomeUnknown($why) : new Unavailable($why));
        }
    }
}

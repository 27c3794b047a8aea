<?php

/**
 * What the consumer and the worker have in common: the work, and the record of what was done, by which a repeated message, a repeated attempt and
 * an attempt that was overtaken are known.
 */

declare(strict_types=1);

namespace Orders;

final class Impossible extends \RuntimeException
{
}

/**
 * The place for your own work: it throws when it fails.
 *
 * @param array<string, mixed> $order
 */
function work(array $order, int $attempt): void
{
    usleep(2000);
    if ($order['impossible'] ?? false) {
        throw new Impossible("order {$order['n']} cannot be closed");
    }
    if ($attempt <= ($order['fails'] ?? 0)) {
        throw new \RuntimeException("attempt $attempt at order {$order['n']} fails");
    }
}

/** A line "JOB ATTEMPT STATUS" for each attempt that was worked on. In your application it is a row, written in the work's own transaction. */
final class Effects
{
    /** @var array<string, array{int, string}> */
    private array $last = [];
    private readonly string $path;

    public function __construct()
    {
        $this->path = getenv('DUETIME_EFFECTS') ?: 'effects.log';
        foreach (is_file($this->path) ? file($this->path, FILE_IGNORE_NEW_LINES) : [] as $line) {
            [$job, $attempt, $status] = explode(' ', $line);
            $this->last[$job] = [(int) $attempt, $status];
        }
    }

    /** The status to report without working, "stale" for an attempt that a later one has overtaken, or null: work. */
    public function known(string $job, int $attempt): ?string
    {
        [$last, $status] = $this->last[$job] ?? [0, ''];
        if ($last > $attempt) {
            return 'stale';
        }
        return $last === $attempt || in_array($status, ['succeeded', 'gave_up'], true) ? $status : null;
    }

    public function record(string $job, int $attempt, string $status): void
    {
        file_put_contents($this->path, "$job $attempt $status\n", FILE_APPEND);
        $this->last[$job] = [$attempt, $status];
    }
}

/**
 * Works on an attempt, unless it is known. The report, or null when there is nothing to say.
 *
 * @param array<string, mixed> $order
 * @return ?array<string, mixed>
 */
function attend(Effects $effects, string $job, int $attempt, array $order): ?array
{
    $known = $effects->known($job, $attempt);
    $report = ['job_id' => $job, 'attempt' => $attempt, 'status' => $known ?? 'succeeded'];
    if ($known !== null) {
        return $known === 'stale' ? null : $report;
    }
    try {
        work($order, $attempt);
    } catch (\Throwable $error) {
        $report['status'] = $error instanceof Impossible ? 'gave_up' : 'failed';
        $report['error'] = ['code' => $error::class, 'message' => $error->getMessage()];
    }
    $effects->record($job, $attempt, $report['status']);
    return $report;
}

<?php

declare(strict_types=1);

namespace Duetime;

/** @internal A whole answer. `retryAfter`: null where the server names no time. */
final class Answer
{
    /** Stands for the result of a line that has none. */
    public const NO_RESULT = ['status' => 503, 'type' => 'outcome-unknown', 'title' => 'no result'];

    public function __construct(public readonly int $status, public readonly ?float $retryAfter, public readonly string $body)
    {
    }

    public static function refusedForNow(int $status): bool
    {
        return in_array($status, [408, 429, 503], true);
    }

    /** Of a duration of hours, minutes and seconds, as the server writes pauses: "PT1M0.5S". */
    public static function secondsOf(string $duration): ?float
    {
        if (!preg_match('/^PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?$/', $duration, $part)) {
            return null;
        }
        return (float) ($part[1] ?? 0) * 3600 + (float) ($part[2] ?? 0) * 60 + (float) ($part[3] ?? 0);
    }

    /**
     * The members of the problem, also when something between us and the server answered in its own words.
     *
     * @return array<string, mixed>
     */
    public function problem(): array
    {
        $members = json_decode($this->body, true);
        return ['status' => $this->status] + (is_array($members) ? $members : ['title' => substr($this->body, 0, 200)]);
    }

    /** @return list<array<string, mixed>> */
    public function lines(): array
    {
        $lines = array_filter(explode("\n", $this->body), static fn (string $line): bool => trim($line) !== '');
        return array_map(self::told(...), array_values($lines));
    }

    /**
     * The result in a line; whatever else may stand there says nothing.
     *
     * @return array<string, mixed>
     */
    private static function told(string $line): array
    {
        $members = json_decode($line, true);
        return is_int($members['status'] ?? null) ? $members : self::NO_RESULT;
    }
}

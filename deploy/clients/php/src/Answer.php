<?php

declare(strict_types=1);

namespace Duetime;

/** @internal A whole answer. `retryAfter`: null where the server names no time. */
final class Answer
{
    public function __construct(public readonly int $status, public readonly ?float $retryAfter, public readonly string $body)
    {
    }

    public function isRefusedForNow(): bool
    {
        return self::refusedForNow($this->status);
    }

    public static function refusedForNow(int $status): bool
    {
        return in_array($status, [408, 429, 503], true);
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
        return array_map(static fn (string $line): array => (array) json_decode($line, true), array_values($lines));
    }
}

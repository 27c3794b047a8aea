<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** What the server refused for good (RFC 9457). `members`: all that it said; `slug`: "too-late". */
class Problem extends DuetimeException
{
    private const BY_SLUG = ['key-conflict' => KeyConflict::class, 'too-late' => TooLate::class];
    private const BY_STATUS = [
        400 => Invalid::class, 401 => Unauthorized::class, 403 => Forbidden::class, 404 => NotFound::class, 409 => Conflict::class,
        412 => VersionMismatch::class, 413 => Invalid::class, 415 => Invalid::class, 422 => Invalid::class,
    ];

    public readonly int $status;
    public readonly string $slug;

    /** @param array<string, mixed> $members */
    final public function __construct(public readonly array $members)
    {
        $this->status = (int) ($members['status'] ?? 0);
        $this->slug = self::slugOf($members);
        $text = "$this->status $this->slug: " . ($members['detail'] ?? $members['title'] ?? '');
        foreach ($members['errors'] ?? [] as $error) {
            $text .= "; {$error['pointer']}: {$error['reason']}";
        }
        parent::__construct($text, $this->status);
    }

    /**
     * The problem as the type that fits best.
     *
     * @param array<string, mixed> $members
     */
    public static function of(array $members): self
    {
        $class = self::BY_SLUG[self::slugOf($members)] ?? self::BY_STATUS[$members['status'] ?? 0] ?? self::class;
        return new $class($members);
    }

    /** It may have been carried out. A proxy that says 502 or 504 has lost the server's answer. */
    public function isDoubted(): bool
    {
        return $this->slug === 'outcome-unknown' || in_array($this->status, [502, 504], true);
    }

    /** @param array<string, mixed> $members */
    public static function slugOf(array $members): string
    {
        return basename((string) ($members['type'] ?? ''));
    }
}

// SPDX-License-Identifier: Apache-2.0
// The browser's time: the only place that names it.

/** Milliseconds of the epoch. */
export function nowMs(): number {
  return Date.now();
}

/** Milliseconds of the epoch that a time of Kubernetes means; undefined: it is none. */
export function parseMs(text: string | undefined): number | undefined {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/** A time of day, with milliseconds. */
export function timeOfDay(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}

/** Waits. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Calls `onMissed` when it is not restarted in time. */
export class Deadline {
  readonly #ms: number;
  readonly #onMissed: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number, onMissed: () => void) {
    this.#ms = ms;
    this.#onMissed = onMissed;
  }

  restart(): void {
    this.end();
    this.#timer = setTimeout(this.#onMissed, this.#ms);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

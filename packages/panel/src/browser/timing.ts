// SPDX-License-Identifier: Apache-2.0

export function nowMs(): number {
  return Date.now();
}

/** Returns milliseconds since 1970; undefined if the text is not a Kubernetes time. */
export function parseMs(text: string | undefined): number | undefined {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

export function timeOfDay(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

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

const ATTEMPTS = 5;
const RETRY_INTERVAL_MS = 500;

/** Retries an idempotent request, because Chromium aborts requests (ERR_NETWORK_CHANGED) when an address of the host changes. */
export async function retry<T>(request: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await sleep(RETRY_INTERVAL_MS);
    }
  }
}

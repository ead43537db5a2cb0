// SPDX-License-Identifier: Apache-2.0
// Throughput and latency of concurrent requests.

export interface Load {
  readonly count: number;
  readonly totalMs: number;
  /** Of each request, sorted, milliseconds. */
  readonly timesMs: readonly number[];
}

/** A percentile of sorted values. */
export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

/** Calls `request` with 0 to `count` - 1, `parallel` at a time. */
export async function load(
  count: number,
  parallel: number,
  request: (index: number) => Promise<unknown>,
): Promise<Load> {
  const timesMs: number[] = [];
  let next = 0;
  const begin = performance.now();
  const client = async () => {
    while (next < count) {
      const index = next;
      next += 1;
      const sent = performance.now();
      await request(index);
      timesMs.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: parallel }, client));
  const totalMs = performance.now() - begin;
  return { count, totalMs, timesMs: timesMs.toSorted((left, right) => left - right) };
}

/** Duration of one request with its response, milliseconds. */
export async function timed<T>(
  request: () => Promise<T>,
): Promise<{ readonly answer: T; readonly ms: number }> {
  const begin = performance.now();
  const answer = await request();
  return { answer, ms: performance.now() - begin };
}

/** A rate with its median and 99th percentile, as text. */
export function describeLoad({ count, totalMs, timesMs }: Load): string {
  const rate = ((count / totalMs) * 1000).toFixed(0);
  return `${rate}/s, p50 ${quantile(timesMs, 0.5).toFixed(1)} ms, p99 ${quantile(timesMs, 0.99).toFixed(1)} ms`;
}

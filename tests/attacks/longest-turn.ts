// SPDX-License-Identifier: Apache-2.0

/** Returns the longest blocking of the event loop during the work, in milliseconds of processor time. */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let before = process.threadCpuUsage();
  let isDone = false;
  const observe = (): void => {
    const now = process.threadCpuUsage();
    longestMs = Math.max(longestMs, (now.user + now.system - before.user - before.system) / 1000);
    before = now;
    if (!isDone) setImmediate(observe);
  };
  setImmediate(observe);
  await work().finally(() => (isDone = true));
  return longestMs;
}

// SPDX-License-Identifier: Apache-2.0
// Runs code in a running Node.js process through the inspector that SIGUSR1 opens.
import { readFileSync } from "node:fs";
import { eventually } from "@patchbay/support";

/** The inspector's port after SIGUSR1. Source: Node.js, `--inspect-port`. */
const INSPECTOR = "http://127.0.0.1:9229/json/list";
const CONNECT_MS = 60_000;
/** Its bit among the signals of a process. Source: signal(7), number 10. */
const SIGUSR1 = 1n << 9n;
/**
 * The inspector is closed to free its port, and well after its client has left: a Node.js 24 whose inspector closes
 * under a client occasionally dies by SIGSEGV.
 */
const CLOSE = `setTimeout(() => process.getBuiltinModule("node:inspector").close(), 300)`;

interface Answer {
  readonly id: number;
  readonly result?: { readonly result?: { readonly value?: unknown } };
}

async function debuggerUrl(): Promise<string> {
  const answer = await fetch(INSPECTOR);
  // Source: Chrome DevTools Protocol, HTTP endpoints.
  const targets = (await answer.json()) as readonly { readonly webSocketDebuggerUrl: string }[];
  return targets[0]?.webSocketDebuggerUrl ?? "";
}

/**
 * Makes the protocol's calls in order; returns the last result. A garbage collection is its own task, which a later
 * call must wait for.
 */
function call(url: string, calls: readonly (readonly [string, object])[]): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const socket = new WebSocket(url);
  let last: Answer | undefined;
  const send = (id: number): void => {
    const [method, params] = calls[id] ?? [];
    socket.send(JSON.stringify({ id, method, params }));
  };
  socket.onopen = () => {
    send(0);
  };
  socket.onmessage = ({ data }) => {
    // Events have no id.
    const answer = JSON.parse(String(data)) as Partial<Answer>;
    if (answer.id === undefined) return;
    if (answer.id < calls.length - 1) {
      send(answer.id + 1);
      return;
    }
    last = { id: answer.id, ...answer };
    socket.close();
  };
  socket.onerror = () => {
    reject(new Error(`nobody answers at ${url}`));
  };
  // Waits for the close, because the process would wait for it in `inspector.close()` and answer nobody meanwhile.
  socket.onclose = () => {
    if (last === undefined) reject(new Error(`${url} was closed before it answered`));
    else resolve(last);
  };
  return promise;
}

/**
 * Signals that a process catches, one bit each, the first for signal 1. Source: proc(5), SigCgt; undefined: it has
 * ended.
 */
function caughtBy(pid: number): bigint | undefined {
  try {
    const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
    return BigInt(`0x${/^SigCgt:\s*(\w+)/m.exec(status)?.[1] ?? "0"}`);
  } catch {
    return undefined;
  }
}

/** Undefined when the process could not open its inspector because another one had the port. */
async function tryToEvaluate(pid: number, text: string): Promise<readonly unknown[] | undefined> {
  // A starting Node.js does not catch the signal yet and would die by it.
  const caught = caughtBy(pid);
  if (caught === undefined) throw new Error("it has ended");
  if ((caught & SIGUSR1) === 0n) return undefined;
  process.kill(pid, "SIGUSR1");
  const url = await debuggerUrl();
  // The port may belong to another process, in which nothing must run.
  const expression = `process.pid === ${String(pid)} ? (() => { ${CLOSE}; return [${text}]; })() : undefined`;
  const { result } = await call(url, [
    ["HeapProfiler.collectGarbage", {}],
    ["Runtime.evaluate", { expression, returnByValue: true }],
  ]);
  const value: unknown = result?.result?.value;
  return Array.isArray(value) ? (value as readonly unknown[]) : undefined;
}

async function isClosed(): Promise<boolean> {
  return fetch(INSPECTOR).then(
    () => false,
    () => true,
  );
}

/**
 * The value of a JavaScript text in the process after a garbage collection; fails immediately when the process ends.
 */
export async function evaluateIn(pid: number, text: string): Promise<unknown> {
  let problem: unknown;
  const attempt = async (): Promise<readonly unknown[] | "ended" | undefined> => {
    try {
      return await tryToEvaluate(pid, text);
    } catch (error) {
      problem = error;
      return caughtBy(pid) === undefined ? "ended" : undefined;
    }
  };
  const answer = await eventually(attempt, { withinMs: CONNECT_MS }).catch((cause: unknown) => {
    throw new Error(`process ${String(pid)} does not open its inspector: ${String(problem)}`, {
      cause,
    });
  });
  if (answer === "ended") throw new Error(`process ${String(pid)} has ended`);
  await eventually(isClosed, { withinMs: CONNECT_MS });
  return answer[0];
}

// SPDX-License-Identifier: Apache-2.0
// Synchronous reads of the API server: the test blocks until the response, because a kubectl per read cost as much
// processor time as the guests.
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { ApiAnswer, ApiQuestion, ApiWrite } from "./api-reader-thread.ts";

const ANSWER_TIMEOUT_MS = 60_000;

/** Interval of reads of an object that is being deleted. */
const GONE_POLL_MS = 50;

/** The Status fields in a test's error. */
interface Refusal {
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly causes?: readonly { readonly field?: string; readonly message: string }[];
  };
}

/** Reads objects over its own open connection and sends writes. */
export class ApiReader {
  readonly #kubeconfig: string;
  #thread: Worker | undefined;

  /** @param kubeconfig - written by standalone; need not exist yet */
  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  /**
   * The response to GET, undefined for a missing object.
   *
   * @throws Error when the server is unreachable or rejects it.
   */
  read(path: string): unknown {
    const answer = this.#ask(path);
    if ("error" in answer) throw new Error(`GET ${path}: ${answer.error}`);
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /**
   * Sends a PUT once.
   *
   * @throws Error when the server is unreachable or rejects it, with its reason and its message.
   */
  put(path: string, body: unknown): void {
    const refusal = this.#write(path, { method: "PUT", body: JSON.stringify(body) });
    if (refusal !== undefined) throw refusal.error;
  }

  /**
   * Creates an object in a collection once; false when it exists.
   *
   * @throws Error as {@link put}
   */
  create(path: string, object: unknown): boolean {
    const refusal = this.#write(path, { method: "POST", body: JSON.stringify(object) });
    if (refusal === undefined) return true;
    if (refusal.reason === "AlreadyExists") return false;
    throw refusal.error;
  }

  /**
   * Patches an object, once: with JSON Patch for a list of operations, otherwise with JSON Merge Patch.
   *
   * @throws Error as {@link put}
   */
  patch(path: string, change: object): void {
    const type = `application/${Array.isArray(change) ? "json-patch" : "merge-patch"}+json`;
    const refusal = this.#write(path, { method: "PATCH", body: JSON.stringify(change), type });
    if (refusal !== undefined) throw refusal.error;
  }

  /**
   * Requests the deletion of an object as `kubectl delete` does, once; false when the object does not exist.
   *
   * @throws Error as {@link put}
   */
  delete(path: string, gracePeriodSeconds?: number): boolean {
    const grace = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    const kind = { apiVersion: "v1", kind: "DeleteOptions" };
    const options = { ...kind, propagationPolicy: "Background", ...grace };
    const refusal = this.#write(path, { method: "DELETE", body: JSON.stringify(options) });
    if (refusal === undefined) return true;
    if (refusal.reason === "NotFound") return false;
    throw refusal.error;
  }

  /**
   * Waits until the path has no object, or one with another uid.
   *
   * @throws Error when this takes longer than `withinMs`.
   */
  waitUntilGone(path: string, uid: string, withinMs: number): void {
    const deadline = performance.now() + withinMs;
    const rest = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    for (;;) {
      const object = this.read(path) as
        | { readonly metadata: { readonly uid?: string } }
        | undefined;
      if (object?.metadata.uid !== uid) return;
      if (performance.now() > deadline) throw new Error(`${path} still exists`);
      Atomics.wait(rest, 0, 0, GONE_POLL_MS);
    }
  }

  /** The rejection's reason. */
  #write(
    path: string,
    write: ApiWrite,
  ): { readonly reason: string; readonly error: Error } | undefined {
    const answer = this.#ask(path, write);
    const what = `${write.method} ${path}`;
    if ("error" in answer) throw new Error(`${what}: ${answer.error}`);
    if (answer.status < 300) return undefined;
    // A Kubernetes API server rejects with a Status.
    const { reason = "", message = answer.text, details } = JSON.parse(answer.text) as Refusal;
    const causes = (details?.causes ?? []).map((cause) => `${cause.field ?? ""}: ${cause.message}`);
    const text = [`${what}: (${reason}): ${message}`, ...causes].join("\n");
    return { reason, error: new Error(text) };
  }

  #ask(path: string, write?: ApiWrite): ApiAnswer {
    this.#thread ??= this.#start();
    const { port1: mine, port2: theirs } = new MessageChannel();
    const isAnswered = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const what = write === undefined ? { path } : { path, write };
    const question: ApiQuestion = { ...what, isAnswered, port: theirs };
    this.#thread.postMessage(question, [theirs]);
    try {
      Atomics.wait(isAnswered, 0, 0, ANSWER_TIMEOUT_MS);
      // Sent by the thread below, or undefined.
      const answer = receiveMessageOnPort(mine)?.message as ApiAnswer | undefined;
      return answer ?? { error: `no answer in ${String(ANSWER_TIMEOUT_MS)} ms` };
    } finally {
      mine.close();
    }
  }

  #start(): Worker {
    const thread = new Worker(new URL("./api-reader-thread.ts", import.meta.url), {
      workerData: this.#kubeconfig,
    });
    thread.unref();
    return thread;
  }

  /** Ends the thread; the next read starts another one. */
  close(): void {
    void this.#thread?.terminate();
    this.#thread = undefined;
  }
}

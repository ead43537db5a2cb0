// SPDX-License-Identifier: Apache-2.0
// What does the API server hold now? The test stands still until it is told; a kubectl for each look took as much of
// the machine as the guests did.
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { ApiAnswer, ApiQuestion } from "./api-reader-thread.ts";

/** Longest time for an answer. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Reads objects over a connection of its own, which stays open, and puts what is asked for. */
export class ApiReader {
  readonly #kubeconfig: string;
  #thread: Worker | undefined;

  /** @param kubeconfig - as standalone writes it; need not be there yet */
  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  /**
   * What the server answers to GET, undefined when there is no such object.
   * @throws Error when the server cannot be reached or refuses.
   */
  read(path: string): unknown {
    const answer = this.#ask(path);
    if ("error" in answer) throw new Error(`GET ${path}: ${answer.error}`);
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /**
   * Puts a body at a path, once.
   * @throws Error when the server cannot be reached or refuses, with its reason and its message.
   */
  put(path: string, body: unknown): void {
    const answer = this.#ask(path, JSON.stringify(body));
    if ("error" in answer) throw new Error(`PUT ${path}: ${answer.error}`);
    if (answer.status < 300) return;
    // A server of Kubernetes' kind refuses with a Status.
    const { reason, message } = JSON.parse(answer.text) as { reason?: string; message?: string };
    throw new Error(`PUT ${path}: (${reason ?? ""}): ${message ?? answer.text}`);
  }

  #ask(path: string, body?: string): ApiAnswer {
    this.#thread ??= this.#start();
    const { port1: mine, port2: theirs } = new MessageChannel();
    const isAnswered = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const what = body === undefined ? { path } : { path, body };
    const question: ApiQuestion = { ...what, isAnswered, port: theirs };
    this.#thread.postMessage(question, [theirs]);
    try {
      Atomics.wait(isAnswered, 0, 0, ANSWER_TIMEOUT_MS);
      // Sent by the thread below, or nothing.
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

  /** Ends the thread; the next look starts another one. */
  close(): void {
    void this.#thread?.terminate();
    this.#thread = undefined;
  }
}

// SPDX-License-Identifier: Apache-2.0
// One POST of JSON to a server behind this one, with a deadline.
import { type RequestOptions, request } from "node:https";
import { parseJson } from "../objects/json.ts";

/** An answer that is longer than this is refused. */
const ANSWER_MAX_BYTES = 16 * 1024 * 1024;

/** Where to, and how long to wait. */
export interface JsonPost {
  readonly options: RequestOptions;
  readonly path: string;
  /** Value of the Host header. */
  readonly host: string;
  readonly text: string;
  readonly timeoutMs: number;
}

async function readAll(answer: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.length;
    if (bytes > ANSWER_MAX_BYTES) {
      throw new Error("the answer is too long");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Posts and reads the answer. Throws an Error where that fails, takes too long, or the answer is not 200 with JSON. */
export async function postJson(post: JsonPost): Promise<unknown> {
  const signal = AbortSignal.timeout(post.timeoutMs);
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const outgoing = request({
    ...post.options,
    method: "POST",
    path: post.path,
    headers: {
      host: post.host,
      accept: "application/json",
      "content-type": "application/json",
      "content-length": Buffer.byteLength(post.text),
    },
    signal,
  });
  outgoing.on("error", (error) => {
    reject(signal.aborted ? new Error("context deadline exceeded", { cause: error }) : error);
  });
  outgoing.on("response", (answer) => {
    readAll(answer)
      .then((text) => {
        if (answer.statusCode === 200) {
          resolve(parseJson(text));
        } else {
          reject(
            new Error(`the server answered ${String(answer.statusCode)}: ${text.slice(0, 200)}`),
          );
        }
      })
      .catch(reject);
  });
  outgoing.end(post.text);
  return promise;
}

// SPDX-License-Identifier: Apache-2.0
// One request to a server behind this one, read whole, with a deadline; addresses that refuse are passed over.
import { type RequestOptions, request } from "node:https";
import type { OutgoingHttpHeaders } from "node:http";
import {
  type Connections,
  type Peer,
  codeOf,
  describeFailure,
  isUnreached,
} from "./connections.ts";
import type { HostPort } from "./service-address.ts";

/** An answer that is longer than this is refused. */
const ANSWER_MAX_BYTES = 16 * 1024 * 1024;

/** What to ask. */
interface Question {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  /** Body; absent: none. */
  readonly text?: string;
  readonly timeoutMs: number;
}

/** What was answered. */
export interface Answer {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
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

/** Asks once; a connection that was kept open and has been closed meanwhile is made anew. */
function askAt(options: RequestOptions, text: string | undefined): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const outgoing = request(options);
  outgoing.on("error", (error) => {
    if (outgoing.reusedSocket && codeOf(error) === "ECONNRESET") {
      askAt(options, text).then(resolve, reject);
    } else {
      reject(error);
    }
  });
  outgoing.on("response", (answer) => {
    readAll(answer)
      .then((received) => {
        resolve({
          code: answer.statusCode ?? 0,
          contentType: answer.headers["content-type"] ?? "",
          text: received,
        });
      })
      .catch(reject);
  });
  outgoing.end(text);
  return promise;
}

/** Runs `attempt` on one address after the other, as long as nobody is there. Throws what the last one threw. */
export async function atAnyAddress<T>(
  peer: Peer,
  attempt: (at: HostPort) => Promise<T>,
): Promise<T> {
  let failure: unknown = new Error("no address");
  for (const at of peer.at) {
    try {
      return await attempt(at);
    } catch (error) {
      failure = error;
      if (!isUnreached(error)) {
        throw error;
      }
    }
  }
  throw failure;
}

/** Asks and reads the answer, whatever its code. Throws an Error with a text for people where nothing can be had. */
export async function exchange(
  peer: Peer,
  question: Question,
  connections: Connections,
): Promise<Answer> {
  const signal = AbortSignal.timeout(question.timeoutMs);
  const { method, path, headers, text } = question;
  let last: HostPort = { host: "", port: 0 };
  try {
    return await atAnyAddress(peer, (at) => {
      last = at;
      const options = connections.optionsFor(peer, at);
      return askAt({ ...options, method, path, headers, signal }, text);
    });
  } catch (error) {
    const why = signal.aborted ? "context deadline exceeded" : describeFailure(error, last);
    throw new Error(why, { cause: error });
  }
}

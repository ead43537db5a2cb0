// SPDX-License-Identifier: Apache-2.0
// The thread of ApiReader: asks the API server, and wakes who waits.
import { readFileSync } from "node:fs";
import { Agent, request, type RequestOptions } from "node:https";
import { text } from "node:stream/consumers";
import type { IncomingMessage } from "node:http";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";

/** What is sent to a path, JSON. */
export interface ApiWrite {
  readonly method: "DELETE" | "PATCH" | "POST" | "PUT";
  readonly body: string;
  /** Content type of a patch; a plain JSON body when unset. */
  readonly type?: string;
}

/** What is asked, and where the answer goes. */
export interface ApiQuestion {
  readonly path: string;
  /** What is written there; absent: it is read. */
  readonly write?: ApiWrite;
  /** One number: no longer 0 once the answer is there. */
  readonly isAnswered: Int32Array;
  readonly port: MessagePort;
}

export type ApiAnswer =
  | { readonly status: number; readonly text: string }
  | { readonly error: string };

/** What standalone writes for its administrator. */
interface KubeConfigFile {
  readonly clusters: readonly [
    {
      readonly cluster: { readonly server: string; readonly "certificate-authority-data": string };
    },
  ];
  readonly users: readonly [
    {
      readonly user: {
        readonly "client-certificate-data": string;
        readonly "client-key-data": string;
      };
    },
  ];
}

const agent = new Agent({ keepAlive: true });

function fromBase64(data: string): Buffer {
  return Buffer.from(data, "base64");
}

/** Read at each look: certificates are renewed. */
function readOptions(): RequestOptions & { readonly server: string } {
  const config = JSON.parse(readFileSync(String(workerData), "utf8")) as KubeConfigFile;
  const [{ cluster }] = config.clusters;
  const [{ user }] = config.users;
  return {
    agent,
    server: cluster.server,
    ca: fromBase64(cluster["certificate-authority-data"]),
    cert: fromBase64(user["client-certificate-data"]),
    key: fromBase64(user["client-key-data"]),
  };
}

/** What is written goes over a connection of its own: nothing is asked for twice. */
async function ask({ path, write }: ApiQuestion): Promise<ApiAnswer> {
  const { server, ...options } = readOptions();
  // Node.js sends a DELETE's body without its length unless the length is set.
  const length = Buffer.byteLength(write?.body ?? "");
  const headers = { "content-type": write?.type ?? "application/json", "content-length": length };
  const writing = write === undefined ? {} : { agent: false, method: write.method, headers };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const url = new URL(path, server);
    request(url, { ...options, ...writing }, resolve)
      .on("error", reject)
      .end(write?.body);
  });
  return { status: response.statusCode ?? 0, text: await text(response) };
}

/** A connection that was kept may have ended meanwhile: then another one is made, once. */
async function answer(question: ApiQuestion): Promise<ApiAnswer> {
  try {
    if (question.write !== undefined) return await ask(question);
    return await ask(question).catch(() => ask(question));
  } catch (error) {
    return { error: String(error) };
  }
}

parentPort?.on("message", (question: ApiQuestion) => {
  const { isAnswered, port } = question;
  void answer(question).then((reported) => {
    port.postMessage(reported);
    Atomics.store(isAnswered, 0, 1);
    Atomics.notify(isAnswered, 0);
    port.close();
  });
});

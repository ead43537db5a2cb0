// SPDX-License-Identifier: Apache-2.0
// ApiReader's thread: sends requests to the API server and wakes the waiting thread.
import { readFileSync } from "node:fs";
import { Agent, request, type RequestOptions } from "node:https";
import { text } from "node:stream/consumers";
import type { IncomingMessage } from "node:http";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";

/** A request body, JSON. */
export interface ApiWrite {
  readonly method: "DELETE" | "PATCH" | "POST" | "PUT";
  readonly body: string;
  /** Content type of a patch; a plain JSON body when unset. */
  readonly type?: string;
}

/** A request and its reply channel. */
export interface ApiQuestion {
  readonly path: string;
  /** The body of a write; unset: a read. */
  readonly write?: ApiWrite;
  /** One number: nonzero once the response is there. */
  readonly isAnswered: Int32Array;
  readonly port: MessagePort;
}

export type ApiAnswer =
  | { readonly status: number; readonly text: string }
  | { readonly error: string };

/** The administrator's kubeconfig of standalone. */
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

/** Read for each request, because certificates are renewed. */
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

/** Writes use a fresh connection, so that no request is repeated. */
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

/** A kept connection may have ended meanwhile: then the request is repeated once on a new one. */
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

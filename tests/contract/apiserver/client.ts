// SPDX-License-Identifier: Apache-2.0
// Requests over TLS with the client's own certificate.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";

/** The client's authority and certificate; PEM. */
export interface Identity {
  readonly ca: string;
  readonly cert?: string;
  readonly key?: string;
}

export interface Sending {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

/** One client's connections, open until `destroy`. */
export function makeAgent(identity: Identity): Agent {
  return new Agent({ ...identity, keepAlive: true, maxSockets: 64 });
}

/** Sends a request; resolves with the response once its headers arrived. */
export async function send(
  agent: Agent,
  url: string,
  sending: Sending = {},
): Promise<IncomingMessage> {
  const { body, headers, ...options } = sending;
  const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
  const outgoing = request(url, { agent, headers: { ...headers, ...length }, ...options });
  outgoing.end(body);
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  return answer;
}

export async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
}

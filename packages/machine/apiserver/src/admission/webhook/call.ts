// SPDX-License-Identifier: Apache-2.0
// Asks one webhook, by URL or by Service.
import { messageOf } from "@patchbay/core/errors";
import { type Connections, type Peer, toPem } from "../../backend/connections.ts";
import { type Answer, exchange } from "../../backend/exchange.ts";
import {
  describeUnresolved,
  resolveService,
  serverNameOf,
  toServiceReference,
} from "../../backend/service-address.ts";
import { isFields, parseJson, printJson, textAt } from "../../objects/json.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionQuestion } from "../admission.ts";
import { type Verdict, readAnswer, toReview } from "./review.ts";
import type { Webhook } from "./webhook.ts";

/** Where Services are looked up, how webhooks are reached, and a new uid for each question. */
export interface WebhookCallDeps {
  readonly store: Store;
  readonly connections: Connections;
  readonly uid: () => string;
}

interface Destination {
  /** The peer; a text where there is none, and why. */
  readonly peer: Peer | string;
  readonly host: string;
  readonly path: string;
}

function byUrl(text: string, caPem: string): Destination {
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? 443 : Number(url.port);
  const peer = { at: [{ host, port }], serverName: host, caPem };
  return { peer, host: url.host, path: url.pathname };
}

function byService(service: unknown, caPem: string, store: Store): Destination {
  const reference = toServiceReference(service);
  const serverName = serverNameOf(reference);
  const resolution = resolveService(store, reference);
  const path = textAt(service, "path") || "/";
  return {
    peer: resolution.found
      ? { at: resolution.at, serverName, caPem }
      : describeUnresolved(reference, resolution.reason),
    host: `${serverName}:${String(reference.port)}`,
    path: path.startsWith("/") ? path : `/${path}`,
  };
}

function destinationOf(webhook: Webhook, store: Store): Destination {
  const { service } = webhook.clientConfig;
  const caPem = toPem(textAt(webhook.clientConfig, "caBundle"));
  return isFields(service)
    ? byService(service, caPem, store)
    : byUrl(textAt(webhook.clientConfig, "url"), caPem);
}

/** What clients make of an answer that is no success. Source: Kubernetes api/errors NewGenericServerResponse. */
const REFUSALS: Readonly<Record<number, string>> = {
  400: "the server rejected our request for an unknown reason",
  401: "the server has asked for the client to provide credentials",
  403: "unknown",
  404: "the server could not find the requested resource",
  405: "the server does not allow this method on the requested resource",
  409: "the server reported a conflict",
  422: "the server rejected our request due to an error in our request",
  429: "the server has received too many requests and has asked us to try again later",
  503: "the server is currently unable to handle the request",
  504: "the server was unable to return a response in the time allotted, but may still be processing the request",
};

function refusalOf({ code, text }: Answer): string {
  return (
    REFUSALS[code] ??
    (code >= 500
      ? `an error on the server (${JSON.stringify(text.trim().slice(0, 2048))}) has prevented the request from succeeding`
      : `the server responded with the status code ${String(code)} but did not return more information`)
  );
}

function parseAnswer(answer: Answer): unknown {
  if (answer.code < 200 || answer.code > 299) {
    throw new Error(refusalOf(answer));
  }
  if (answer.text === "") {
    throw new Error(
      `0-length response with status code: ${String(answer.code)} and content type: ${answer.contentType}`,
    );
  }
  try {
    return parseJson(answer.text);
  } catch (error) {
    throw new Error(`couldn't get version/kind; json parse error: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

async function post(webhook: Webhook, text: string, deps: WebhookCallDeps): Promise<Answer> {
  const { peer, host, path } = destinationOf(webhook, deps.store);
  const full = `${path}?timeout=${String(webhook.timeoutMs / 1000)}s`;
  const headers = {
    host,
    accept: "application/json, */*",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    "user-agent": "kube-apiserver-admission",
  };
  try {
    if (typeof peer === "string") {
      throw new Error(peer);
    }
    const question = { method: "POST", path: full, headers, text } as const;
    return await exchange(peer, { ...question, timeoutMs: webhook.timeoutMs }, deps.connections);
  } catch (error) {
    throw new Error(`Post "https://${host}${full}": ${messageOf(error)}`, { cause: error });
  }
}

/** Whatever fails, with what was being done. */
async function during<T>(what: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    throw new Error(`${what}: ${messageOf(error)}`, { cause: error });
  }
}

/** Asks a webhook; `as`: the version that it wants. Throws an Error where it cannot be asked or makes no sense. */
export async function callWebhook(
  webhook: Webhook,
  asked: { readonly question: AdmissionQuestion; readonly as: Kind },
  deps: WebhookCallDeps,
): Promise<Verdict> {
  const uid = deps.uid();
  const review = toReview(asked.question, { as: asked.as, uid, version: webhook.reviewVersion });
  const answer = await during("failed to call webhook", async () =>
    parseAnswer(await post(webhook, printJson(review), deps)),
  );
  return during("received invalid webhook response", () => readAnswer(answer, webhook, uid));
}

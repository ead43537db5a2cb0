// SPDX-License-Identifier: Apache-2.0
import { messageOf, type PoolLimits, type SharePool } from "@patchbay/base";
import { type Connections, type Peer, toPem } from "../../backend/connections.ts";
import { type BackendResponse, exchange } from "../../backend/exchange.ts";
import {
  describeUnresolved,
  resolveService,
  toServerName,
  toServiceReference,
} from "../../backend/service-address.ts";
import { shareKeyOf } from "../../limits/limits.ts";
import { isFields, parseJson, printJson, textAt } from "../../objects/json.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";
import { type Verdict, parseReview, toReview } from "./review.ts";
import type { Webhook } from "./webhook.ts";

export interface WebhookCallDeps {
  readonly store: Store;
  readonly connections: Connections;
  readonly uid: () => string;
  readonly reviews: SharePool;
}

const KIB = 1024;

/** A webhook answers in the order of arrival, so a user's large reviews are sent one after another. */
export const REVIEW_LIMITS: PoolLimits = {
  max: 16 * KIB * KIB,
  share: 256 * KIB,
  systemShare: 8 * KIB * KIB,
  reserve: 8 * KIB * KIB,
};

interface Destination {
  /** Peer to call, or an error message if the Service cannot be resolved. */
  readonly peer: Peer | string;
  readonly host: string;
  readonly path: string;
}

function urlDestination(text: string, caPem: string): Destination {
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? 443 : Number(url.port);
  const peer = { addresses: [{ host, port }], serverName: host, caPem };
  return { peer, host: url.host, path: url.pathname };
}

function serviceDestination(service: unknown, caPem: string, store: Store): Destination {
  const reference = toServiceReference(service);
  const serverName = toServerName(reference);
  const resolution = resolveService(store, reference);
  const path = textAt(service, "path") || "/";
  return {
    peer: resolution.isResolved
      ? { addresses: resolution.addresses, serverName, caPem }
      : describeUnresolved(reference, resolution.reason),
    host: `${serverName}:${String(reference.port)}`,
    path: path.startsWith("/") ? path : `/${path}`,
  };
}

function findDestination(webhook: Webhook, store: Store): Destination {
  const { service } = webhook.clientConfig;
  const caPem = toPem(textAt(webhook.clientConfig, "caBundle"));
  return isFields(service)
    ? serviceDestination(service, caPem, store)
    : urlDestination(textAt(webhook.clientConfig, "url"), caPem);
}

/** Messages of client-go by status code. Source: Kubernetes api/errors NewGenericServerResponse. */
const STATUS_MESSAGES: Readonly<Record<number, string>> = {
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

function describeStatus({ code, text }: BackendResponse): string {
  return (
    STATUS_MESSAGES[code] ??
    (code >= 500
      ? `an error on the server (${JSON.stringify(text.trim().slice(0, 2048))}) has prevented the request from succeeding`
      : `the server responded with the status code ${String(code)} but did not return more information`)
  );
}

function parseResponse(response: BackendResponse): unknown {
  if (response.code < 200 || response.code > 299) {
    throw new Error(describeStatus(response));
  }
  if (response.text === "") {
    throw new Error(
      `0-length response with status code: ${String(response.code)} and content type: ${response.contentType}`,
    );
  }
  try {
    return parseJson(response.text);
  } catch (error) {
    throw new Error(`couldn't get version/kind; json parse error: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

async function postReview(
  webhook: Webhook,
  text: string,
  deps: WebhookCallDeps,
): Promise<BackendResponse> {
  const { peer, host, path } = findDestination(webhook, deps.store);
  const pathWithTimeout = `${path}?timeout=${String(webhook.timeoutMs / 1000)}s`;
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
    const backendRequest = { method: "POST", path: pathWithTimeout, headers, text } as const;
    return await exchange(
      peer,
      { ...backendRequest, timeoutMs: webhook.timeoutMs },
      deps.connections,
    );
  } catch (error) {
    throw new Error(`Post "https://${host}${pathWithTimeout}": ${messageOf(error)}`, {
      cause: error,
    });
  }
}

async function withContext<T>(messagePrefix: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`${messagePrefix}: ${messageOf(error)}`, { cause: error });
  }
}

/** Calls the webhook. Throws an Error if the call fails or the response is invalid. */
export async function callWebhook(
  webhook: Webhook,
  request: AdmissionRequest,
  wantedKind: Kind,
  deps: WebhookCallDeps,
): Promise<Verdict> {
  const uid = deps.uid();
  const review = toReview(request, { wantedKind, uid, version: webhook.reviewVersion });
  const text = printJson(review);
  const response = await withContext("failed to call webhook", async () => {
    const post = (): Promise<BackendResponse> => postReview(webhook, text, deps);
    return parseResponse(await deps.reviews.run(shareKeyOf(request.user), post, text.length));
  });
  return withContext("received invalid webhook response", () =>
    parseReview(response, webhook, uid),
  );
}

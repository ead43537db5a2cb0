// SPDX-License-Identifier: Apache-2.0
// Asks one webhook, by URL or by Service.
import { type Connections, type Peer, toPem } from "../backend/connections.ts";
import { postJson } from "../backend/post-json.ts";
import { resolveService, toServiceReference } from "../backend/service-address.ts";
import { isFields, printJson, textAt } from "../objects/json.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionQuestion } from "./admission.ts";
import { type Approval, readAnswer, toReview } from "./review.ts";
import type { Webhook } from "./webhook.ts";

/** What asking works with. */
export interface WebhookCallDeps {
  readonly store: Store;
  readonly connections: Connections;
  readonly uid: () => string;
}

interface Destination {
  readonly peer: Peer;
  readonly host: string;
  readonly path: string;
}

function byUrl(text: string, caPem: string): Destination {
  const url = new URL(text);
  if (url.protocol !== "https:") {
    throw new Error(`webhooks are called by https only, not ${url.protocol}`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? 443 : Number(url.port);
  const path = `${url.pathname}${url.search}`;
  return { peer: { at: { host, port }, serverName: host, caPem }, host: url.host, path };
}

function byService(service: unknown, caPem: string, store: Store): Destination {
  const reference = toServiceReference(service);
  const serverName = `${reference.name}.${reference.namespace}.svc`;
  const resolution = resolveService(store, reference);
  if (!resolution.found) {
    throw new Error(resolution.message);
  }
  const path = textAt(service, "path") || "/";
  return {
    peer: { at: resolution.at, serverName, caPem },
    host: `${serverName}:${String(reference.port)}`,
    path,
  };
}

function destinationOf(webhook: Webhook, store: Store): Destination {
  const { service } = webhook.clientConfig;
  const caPem = toPem(textAt(webhook.clientConfig, "caBundle"));
  return isFields(service)
    ? byService(service, caPem, store)
    : byUrl(textAt(webhook.clientConfig, "url"), caPem);
}

/** Asks a webhook; `as`: the version that it wants. Throws a StatusError where it denies, an Error where it cannot be asked. */
export async function callWebhook(
  webhook: Webhook,
  asked: { readonly question: AdmissionQuestion; readonly as: Kind },
  deps: WebhookCallDeps,
): Promise<Approval> {
  const { peer, host, path } = destinationOf(webhook, deps.store);
  const uid = deps.uid();
  const separator = path.includes("?") ? "&" : "?";
  const answer = await postJson({
    options: deps.connections.optionsFor(peer),
    host,
    path: `${path}${separator}timeout=${String(webhook.timeoutMs / 1000)}s`,
    text: printJson(toReview(asked.question, asked.as, uid)),
    timeoutMs: webhook.timeoutMs,
  });
  return readAnswer(answer, { webhook: webhook.name, uid });
}

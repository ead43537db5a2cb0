// SPDX-License-Identifier: Apache-2.0
import type { DoctorReport } from "@patchbay/core/doctor";
import type { ApiRequest } from "../model/changes.ts";
import { parseEventRows, type EventRow } from "../model/events.ts";
import { parseCounters, type Counters } from "../model/nic/traffic.ts";
import type { Rules } from "../model/rights.ts";
import type { Unit } from "../model/unit.ts";
import type { Answer } from "../model/verdict.ts";
import { retry } from "./timing.ts";
import type { Session } from "./session.ts";

interface Refusal {
  readonly message?: string;
}

async function sendRequest(
  session: Session,
  { method, path, body, contentType }: ApiRequest,
  isDryRun: boolean,
): Promise<Answer> {
  const response = await fetch(isDryRun ? `${path}?dryRun=All` : path, {
    method,
    headers: { "content-type": contentType, "x-panel-key": session.key },
    body: JSON.stringify(body),
  });
  // The cast is safe, because the response comes from the panel's own server.
  if (response.ok) return (await response.json()) as Answer;
  const { message = "" } = (await response.json()) as Refusal;
  return {
    status: response.status,
    text: JSON.stringify({ kind: "Status", message }),
    warnings: [],
  };
}

/** Sends a request, as a dry run if `isDryRun` is set. Returns an answer with status 503 if the panel's server is unreachable. */
export async function send(
  session: Session,
  request: ApiRequest,
  isDryRun: boolean,
): Promise<Answer> {
  const sendOnce = (): Promise<Answer> => sendRequest(session, request, isDryRun);
  try {
    return await (isDryRun ? retry(sendOnce) : sendOnce());
  } catch {
    const message = "the panel's server does not answer: does `patchbay ui` still run?";
    return { status: 503, text: JSON.stringify({ kind: "Status", message }), warnings: [] };
  }
}

/** Returns the counters of a NIC; undefined if the node does not report them. */
export async function readTraffic(
  session: Session,
  { namespace, name }: Pick<Unit, "namespace" | "name">,
  iface: string,
): Promise<Counters | undefined> {
  const vmi = `namespaces/${namespace}/virtualmachineinstances/${name}`;
  const path = `/apis/subresources.kubevirt.io/v1/${vmi}/interfacetraffic`;
  try {
    const response = await fetch(path, { headers: { "x-panel-key": session.key } });
    if (!response.ok) return undefined;
    const { status, text } = (await response.json()) as Answer;
    return status === 200 ? parseCounters(text, iface) : undefined;
  } catch {
    return undefined;
  }
}

export async function readEvents(
  session: Session,
  { namespace, name }: Pick<Unit, "namespace" | "name">,
): Promise<readonly EventRow[]> {
  const selector = encodeURIComponent(`involvedObject.name=${name}`);
  const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=${selector}&limit=500`;
  try {
    const response = await fetch(path, { headers: { "x-panel-key": session.key } });
    const { status, text } = (await response.json()) as Answer;
    return status === 200 ? parseEventRows(text) : [];
  } catch {
    return [];
  }
}

/** Returns the disk images of a standalone machine; empty on a cluster, or if the server does not respond. */
export async function readImages(session: Session): Promise<readonly string[]> {
  try {
    const response = await fetch("/images", { headers: { "x-panel-key": session.key } });
    const { names = [] } = (await response.json()) as { readonly names?: readonly string[] };
    return names;
  } catch {
    return [];
  }
}

export async function readDoctorReport(
  session: Session,
  { namespace, name }: Pick<Unit, "namespace" | "name">,
  iface: string,
): Promise<DoctorReport | { readonly refused: string }> {
  const vmi = `namespaces/${namespace}/virtualmachineinstances/${name}`;
  const path = `/apis/subresources.kubevirt.io/v1/${vmi}/doctor?interface=${encodeURIComponent(iface)}`;
  try {
    const { status, text } = await retry(async () => {
      const response = await fetch(path, { headers: { "x-panel-key": session.key } });
      return (await response.json()) as Answer;
    });
    if (status === 200) return JSON.parse(text) as DoctorReport;
    return { refused: (JSON.parse(text) as Refusal).message ?? "" };
  } catch {
    return { refused: "the panel's server does not answer: does `patchbay ui` still run?" };
  }
}

/** Returns the user's rules in a namespace. If the review fails, returns incomplete rules, so that the panel offers all actions. */
export async function readRules(session: Session, namespace: string): Promise<Rules> {
  const path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectRulesReview",
    spec: { namespace },
  };
  const request = { method: "POST", path, body, contentType: "application/json" } as const;
  try {
    // The review is not sent as a dry run, because it changes nothing.
    const { status, text } = await retry(() => sendRequest(session, request, false));
    if (status >= 300) return { incomplete: true };
    const review = JSON.parse(text) as { readonly status?: Rules };
    return review.status ?? { incomplete: true };
  } catch {
    return { incomplete: true };
  }
}

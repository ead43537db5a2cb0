// SPDX-License-Identifier: Apache-2.0
// How does the page ask the API server, through the panel's server?
import type { DoctorReport } from "@patchbay/core";
import type { Ask } from "../model/changes.ts";
import { eventRows, type EventRow } from "../model/events.ts";
import { countersIn, type Counters } from "../model/nic/traffic.ts";
import type { Rules } from "../model/rights.ts";
import type { Unit } from "../model/unit.ts";
import type { Answer } from "../model/verdict.ts";
import { again } from "./again.ts";
import type { Session } from "./session.ts";

interface Refusal {
  readonly message?: string;
}

async function exchange(
  session: Session,
  { method, path, body, contentType }: Ask,
  isDryRun: boolean,
): Promise<Answer> {
  const response = await fetch(isDryRun ? `${path}?dryRun=All` : path, {
    method,
    headers: { "content-type": contentType, "x-panel-key": session.key },
    body: JSON.stringify(body),
  });
  // The panel's own server.
  if (response.ok) return (await response.json()) as Answer;
  const { message = "" } = (await response.json()) as Refusal;
  return {
    status: response.status,
    text: JSON.stringify({ kind: "Status", message }),
    warnings: [],
  };
}

/** Sends a request; with `isDryRun` nothing is changed. A server that cannot be reached is an answer too. */
export async function send(session: Session, ask: Ask, isDryRun: boolean): Promise<Answer> {
  const sendOnce = (): Promise<Answer> => exchange(session, ask, isDryRun);
  try {
    return await (isDryRun ? again(sendOnce) : sendOnce());
  } catch {
    const message = "the panel's server does not answer: does `patchbay ui` still run?";
    return { status: 503, text: JSON.stringify({ kind: "Status", message }), warnings: [] };
  }
}

/** What went through a NIC until now, as its node tells; undefined where it does not. */
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
    const { status, text } = (await response.json()) as Answer; // the panel's own server
    return status === 200 ? countersIn(text, iface) : undefined;
  } catch {
    return undefined;
  }
}

/** Events of a VM and its VMI; none where they cannot be read. */
export async function readEvents(
  session: Session,
  { namespace, name }: Pick<Unit, "namespace" | "name">,
): Promise<readonly EventRow[]> {
  const selector = encodeURIComponent(`involvedObject.name=${name}`);
  const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=${selector}&limit=500`;
  try {
    const response = await fetch(path, { headers: { "x-panel-key": session.key } });
    const { status, text } = (await response.json()) as Answer; // the panel's own server
    return status === 200 ? eventRows(text) : [];
  } catch {
    return [];
  }
}

/** Names of images that the machine has; none where there is no machine, or it does not answer. */
export async function readImages(session: Session): Promise<readonly string[]> {
  try {
    const response = await fetch("/images", { headers: { "x-panel-key": session.key } });
    const { names = [] } = (await response.json()) as { readonly names?: readonly string[] }; // the panel's own server
    return names;
  } catch {
    return [];
  }
}

/** At which hop frames of a NIC die, or why nobody can tell. */
export async function readWay(
  session: Session,
  { namespace, name }: Pick<Unit, "namespace" | "name">,
  iface: string,
): Promise<DoctorReport | { readonly refused: string }> {
  const vmi = `namespaces/${namespace}/virtualmachineinstances/${name}`;
  const path = `/apis/subresources.kubevirt.io/v1/${vmi}/doctor?interface=${encodeURIComponent(iface)}`;
  try {
    const { status, text } = await again(async () => {
      const response = await fetch(path, { headers: { "x-panel-key": session.key } });
      return (await response.json()) as Answer; // the panel's own server
    });
    if (status === 200) return JSON.parse(text) as DoctorReport; // what virt-api answers
    return { refused: (JSON.parse(text) as Refusal).message ?? "" };
  } catch {
    return { refused: "the panel's server does not answer: does `patchbay ui` still run?" };
  }
}

/** What the user may do in a namespace; where the server does not say, everything is tried. */
export async function readRules(session: Session, namespace: string): Promise<Rules> {
  const path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectRulesReview",
    spec: { namespace },
  };
  const ask = { method: "POST", path, body, contentType: "application/json" } as const;
  try {
    // A review changes nothing.
    const { status, text } = await again(() => exchange(session, ask, false));
    if (status >= 300) return { incomplete: true };
    const review = JSON.parse(text) as { readonly status?: Rules }; // the API server's own answer
    return review.status ?? { incomplete: true };
  } catch {
    return { incomplete: true };
  }
}

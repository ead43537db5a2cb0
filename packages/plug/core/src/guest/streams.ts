// SPDX-License-Identifier: Apache-2.0
// Connections to a guest that last: its serial console and its screen. Source: KubeVirt pkg/virt-handler/rest/console.go.
import type { ObjectKey } from "../ports/store.ts";
import { guestPath, parseGuestPath } from "./requests.ts";

const STREAMS = ["console", "vnc"] as const;

/** One of them; a guest has one of each at a time. */
export type GuestStream = (typeof STREAMS)[number];

/** What the connection becomes: bytes both ways, as they come. Source: KubeVirt kubecli PlainStreamProtocolName. */
export const STREAM_PROTOCOL = "plain.kubevirt.io";

/** Asked with the value `true`: whoever has the stream keeps it. Source: KubeVirt PreserveSessionParamName. */
export const PRESERVE_SESSION = "preserveSession";

/** Asked with the value `true`, of virt-handler alone: nobody loses the screen. */
const BESIDE = "beside";

/** A stream that is asked for. */
export interface StreamRequest {
  readonly stream: GuestStream;
  /** It is refused while somebody has it; else it is taken from them. */
  readonly preservesSession: boolean;
  /** A screen is looked at beside whoever has it, for a moment. */
  readonly isBeside?: true;
}

/** Whether there is such a stream. */
export function isGuestStream(name: string): name is GuestStream {
  return (STREAMS as readonly string[]).includes(name);
}

/** The path at virt-handler. */
export function guestStreamPath(
  key: ObjectKey,
  { stream, preservesSession, isBeside }: StreamRequest,
): string {
  const asked = [
    ...(preservesSession ? [PRESERVE_SESSION] : []),
    ...(isBeside === true ? [BESIDE] : []),
  ];
  const query = asked.map((name) => `${name}=true`).join("&");
  return `${guestPath(key, stream)}${query === "" ? "" : `?${query}`}`;
}

/** What a path asks; undefined where it is none of these. */
export function parseGuestStream(
  url: string,
): (StreamRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const { key, what = "" } = parseGuestPath(path) ?? {};
  if (key === undefined || !isGuestStream(what)) return undefined;
  const asked = query.split("&");
  const preservesSession = asked.includes(`${PRESERVE_SESSION}=true`);
  const isBeside = what === "vnc" && asked.includes(`${BESIDE}=true`);
  return { key, stream: what, preservesSession, ...(isBeside && { isBeside }) };
}

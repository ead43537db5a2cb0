// SPDX-License-Identifier: Apache-2.0
// What is carried between the launchers of a VM that moves, and what a relay and its parent say to each other. Pure.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { PeerCertificate, SecureContextOptions } from "node:tls";
import { RELAY_GROUP } from "@patchbay/api/names";

/** One way between two launchers: libvirt's own words, the guest's memory, its disks. */
export type Channel = "libvirt" | "memory" | "disks";

export const CHANNELS: readonly Channel[] = ["libvirt", "memory", "disks"];

/** Who a node is, and whom it believes; PEM. The key is a secret. */
export interface RelayIdentity {
  readonly certPem: string;
  readonly keyPem: string;
  readonly authorityPem: string;
}

/** One migration's relay on one of its nodes. */
export interface RelayOrder {
  readonly migrationUid: string;
  readonly identity: RelayIdentity;
  /** The only node that is spoken to. */
  readonly peerNode: string;
  /** How many connections each channel has, once each; a channel that is not there has none. */
  readonly connections: Readonly<Partial<Record<Channel, number>>>;
  /** Of the launcher's sockets, in its directory, whose descriptor has the token {@link DIRECTORY_TOKEN}. */
  readonly sockets: Readonly<Record<Channel, string>>;
  /** A connection over which nothing comes or goes for so long is cut, milliseconds; disks may be silent. */
  readonly silenceMs: number;
  /** How long whoever connects may take until it has said who it is, milliseconds. */
  readonly greetingMs: number;
}

export const DIRECTORY_TOKEN = 0;

export type Ports = Readonly<Partial<Record<Channel, number>>>;

/** What the parent says. */
export type Order =
  /** Listens at that address for the source's node, and connects to the launcher's sockets. */
  | { readonly kind: "receive"; readonly order: RelayOrder; readonly listenAddress: string }
  /** Makes the launcher's sockets, and connects to the target's node. */
  | {
      readonly kind: "send";
      readonly order: RelayOrder;
      readonly address: string;
      readonly ports: Ports;
    }
  /** Tells the target's node that the guest is off where it was; by who sends. */
  | { readonly kind: "tellGone" };

/** What the relay says. */
export type Word =
  /** It can be connected to; of who receives, at these ports. */
  | { readonly kind: "listening"; readonly ports: Ports }
  /** It cannot do what it was told to. */
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "joined"; readonly channel: Channel }
  | { readonly kind: "ended"; readonly channel: Channel; readonly reason: string }
  /** Somebody came who is not let in. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The source's node says that the guest is off there. */
  | { readonly kind: "gone" }
  /** The target's node has heard that, or has not. */
  | { readonly kind: "heard" }
  | { readonly kind: "unheard"; readonly reason: string };

/** What a connection begins with, in one line. */
export type Greeting =
  | { readonly migration: string; readonly channel: Channel }
  | { readonly migration: string; readonly says: "gone" };

/** Longest line of a greeting, bytes. */
export const GREETING_MAX = 256;

export function printGreeting(greeting: Greeting): string {
  return `${JSON.stringify(greeting)}\n`;
}

function isChannel(value: unknown): value is Channel {
  return CHANNELS.some((channel) => channel === value);
}

/** The greeting of a line; undefined when it is none. */
export function parseGreeting(line: string): Greeting | undefined {
  const said = parseJson(line);
  if (!isJsonObject(said) || typeof said["migration"] !== "string") return undefined;
  const { migration, channel, says } = said;
  if (says === "gone") return { migration, says };
  return isChannel(channel) ? { migration, channel } : undefined;
}

/** Longest text of a relay that is kept, characters. */
const REASON_MAX = 300;

function textOf(value: unknown): string {
  return typeof value === "string" ? value.slice(0, REASON_MAX) : "";
}

function parsePorts(value: unknown): Ports {
  if (!isJsonObject(value)) return {};
  const found = CHANNELS.flatMap((channel) => {
    const port = value[channel];
    return typeof port === "number" ? [[channel, port] as const] : [];
  });
  return Object.fromEntries(found);
}

/** A word about one channel. */
function channelWordOf(kind: "joined" | "ended", channel: unknown, reason: string) {
  if (!isChannel(channel)) return undefined;
  return kind === "joined" ? { kind, channel } : { kind, channel, reason };
}

/** What the relay said, which speaks to strangers; undefined when it is nothing of the above. */
export function parseWord(message: unknown): Word | undefined {
  if (!isJsonObject(message)) return undefined;
  const { kind } = message;
  const reason = textOf(message["reason"]);
  switch (kind) {
    case "listening":
      return { kind, ports: parsePorts(message["ports"]) };
    case "failed":
    case "refused":
    case "unheard":
      return { kind, reason };
    case "gone":
    case "heard":
      return { kind };
    case "joined":
    case "ended":
      return channelWordOf(kind, message["channel"], reason);
    default:
      return undefined;
  }
}

/** What a connection is made with; both ends are ours. */
export function tlsOf(identity: RelayIdentity): SecureContextOptions {
  const { certPem: cert, keyPem: key, authorityPem: ca } = identity;
  return { cert, key, ca, minVersion: "TLSv1.3" };
}

/** Whether a certificate that the authority has signed is that node's, for this use. */
export function isPeer({ subject }: Pick<PeerCertificate, "subject">, node: string): boolean {
  return subject.CN === node && subject.O === RELAY_GROUP;
}

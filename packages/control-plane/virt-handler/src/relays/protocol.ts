// SPDX-License-Identifier: Apache-2.0
// Messages between a migration relay and its parent, and between the relays of two nodes.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { PeerCertificate, SecureContextOptions } from "node:tls";
import { RELAY_GROUP } from "@patchbay/api/names";

/** Purpose of a relayed connection: libvirt's migration protocol, the guest's memory, or the guest's disks. */
export type Channel = "libvirt" | "memory" | "disks";

export const CHANNELS: readonly Channel[] = ["libvirt", "memory", "disks"];

/** Certificate and key of a node, and the trusted CA, in PEM. The key is secret. */
export interface RelayIdentity {
  readonly certPem: string;
  readonly keyPem: string;
  readonly authorityPem: string;
}

export interface RelayOptions {
  readonly migrationUid: string;
  readonly identity: RelayIdentity;
  readonly peerNode: string;
  /** Number of connections that each channel accepts; 0 if unset. */
  readonly connections: Readonly<Partial<Record<Channel, number>>>;
  /** Names of the sockets in the launcher's directory. The directory's descriptor is sent with token {@link DIRECTORY_TOKEN}. */
  readonly sockets: Readonly<Record<Channel, string>>;
  /** Time without traffic after which a connection is closed, in milliseconds. Connections of the disks channel have no limit. */
  readonly idleTimeoutMs: number;
  readonly greetingMs: number;
}

export const DIRECTORY_TOKEN = 0;

export type Ports = Readonly<Partial<Record<Channel, number>>>;

export type RelayCommand =
  /** Accepts connections of the source's node on `listenAddress`, and connects them to the launcher's sockets. */
  | { readonly kind: "receive"; readonly order: RelayOptions; readonly listenAddress: string }
  /** Creates sockets for the launcher, and connects them to the target's node. */
  | {
      readonly kind: "send";
      readonly order: RelayOptions;
      readonly address: string;
      readonly ports: Ports;
    }
  /** On the source: informs the target's node that the guest has left. */
  | { readonly kind: "reportGone" };

export type RelayMessage =
  /** Reports that the relay accepts connections. On the target, `ports` are its TCP ports. */
  | { readonly kind: "listening"; readonly ports: Ports }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "joined"; readonly channel: Channel }
  | { readonly kind: "ended"; readonly channel: Channel; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "gone" }
  /** Reports whether the target's node has confirmed that the guest has left. */
  | { readonly kind: "departureConfirmed" }
  | { readonly kind: "departureUnconfirmed"; readonly reason: string };

export type Greeting =
  | { readonly migration: string; readonly channel: Channel }
  | { readonly migration: string; readonly isGuestGone: true };

/**
 * Text with which the source reports that the guest has left, and text with which the target confirms the report. The texts must not
 * change, because relays of older versions use them too.
 */
const GUEST_GONE_TEXT = "gone";
export const DEPARTURE_CONFIRMATION = "heard";

/** Maximum length of a greeting, in bytes. */
export const GREETING_MAX = 256;

export function printGreeting(greeting: Greeting): string {
  const { migration } = greeting;
  const message = "channel" in greeting ? greeting : { migration, says: GUEST_GONE_TEXT };
  return `${JSON.stringify(message)}\n`;
}

function isChannel(value: unknown): value is Channel {
  return CHANNELS.some((channel) => channel === value);
}

export function parseGreeting(line: string): Greeting | undefined {
  const parsed = parseJson(line);
  if (!isJsonObject(parsed) || typeof parsed["migration"] !== "string") return undefined;
  const { migration, channel, says } = parsed;
  if (says === GUEST_GONE_TEXT) return { migration, isGuestGone: true };
  return isChannel(channel) ? { migration, channel } : undefined;
}

/** Maximum length of a reason from the relay, in characters. Longer reasons are truncated. */
const REASON_MAX = 300;

function toReason(value: unknown): string {
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

function parseChannelMessage(kind: "joined" | "ended", channel: unknown, reason: string) {
  if (!isChannel(channel)) return undefined;
  return kind === "joined" ? { kind, channel } : { kind, channel, reason };
}

/** Validates a message of the relay process, which handles untrusted data. Returns undefined if the message is invalid. */
export function parseRelayMessage(message: unknown): RelayMessage | undefined {
  if (!isJsonObject(message)) return undefined;
  const { kind } = message;
  const reason = toReason(message["reason"]);
  switch (kind) {
    case "listening":
      return { kind, ports: parsePorts(message["ports"]) };
    case "failed":
    case "refused":
    case "departureUnconfirmed":
      return { kind, reason };
    case "gone":
    case "departureConfirmed":
      return { kind };
    case "joined":
    case "ended":
      return parseChannelMessage(kind, message["channel"], reason);
    default:
      return undefined;
  }
}

export function toTlsOptions(identity: RelayIdentity): SecureContextOptions {
  const { certPem: cert, keyPem: key, authorityPem: ca } = identity;
  return { cert, key, ca, minVersion: "TLSv1.3" };
}

/** Returns whether the certificate is the relay certificate of the node. The caller must have verified the certificate's signature. */
export function isPeer({ subject }: Pick<PeerCertificate, "subject">, node: string): boolean {
  return subject.CN === node && subject.O === RELAY_GROUP;
}

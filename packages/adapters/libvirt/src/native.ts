// SPDX-License-Identifier: Apache-2.0
// The types of the addon in native/, and the only file that loads it. It is loaded in the child only.
import { createRequire } from "node:module";

/** What the addon tells unasked: `ended` is the last, when nothing is left of the connection. */
export type Notify = (kind: "event" | "lost" | "ended", value?: unknown) => void;

/** One connection with a thread of its own; calls run one after the other. Rejections are {@link NativeError}. */
export interface NativeConnection {
  readonly opened: Promise<undefined>;
  call(operation: string, ...args: readonly string[]): Promise<unknown>;
  /** Ends its thread, and the call that it is in. */
  close(): void;
}

/** An error in libvirt's own numbers. Source: libvirt virError. */
export interface NativeError {
  readonly number: number;
  readonly domain: number;
  readonly level: number;
  readonly message: string;
}

/** What the addon exports; libvirt's event loop runs in a thread of its own as long as the process. */
export interface LibvirtNative {
  /** `socketFd` is the socket that the URI names, or -1. */
  readonly Connection: new (uri: string, notify: Notify, socketFd: number) => NativeConnection;
  /** How long ago libvirt's event loop was last seen to turn, milliseconds; it does at least once a second. */
  readonly eventLoopAgeMs: () => number;
}

// The addon's shape is fixed by native/*.cc, which is built with this file.
const load = createRequire(import.meta.url) as (path: string) => LibvirtNative;

/** Loads the addon; libvirt's event loop starts with it. */
export function loadLibvirt(): LibvirtNative {
  return load("../build/libvirt.node");
}

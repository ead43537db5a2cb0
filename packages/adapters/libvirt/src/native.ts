// SPDX-License-Identifier: Apache-2.0
// Types of the addon in native/; the only file that loads it. Only the child loads it.
import { createRequire } from "node:module";

/** Notifications of the addon. `ended` is the last one. */
export type Notify = (kind: "event" | "lost" | "ended", value?: unknown) => void;

/** A connection with a thread of its own; calls run one after the other. Rejections are {@link NativeError}. */
export interface NativeConnection {
  readonly opened: Promise<undefined>;
  call(operation: string, ...args: readonly string[]): Promise<unknown>;
  /** Ends its thread and the running call. */
  close(): void;
}

/** Source: libvirt virError */
export interface NativeError {
  readonly number: number;
  readonly domain: number;
  readonly level: number;
  readonly message: string;
}

/** libvirt's event loop runs in its own thread for the life of the process. */
export interface LibvirtNative {
  /** `socketFd`: the socket that the URI names, or -1. */
  readonly Connection: new (uri: string, notify: Notify, socketFd: number) => NativeConnection;
  /** Milliseconds since libvirt's event loop last turned, which it does at least once a second. */
  readonly eventLoopAgeMs: () => number;
}

// native/*.cc defines the addon's shape, and is built with this file.
const load = createRequire(import.meta.url) as (path: string) => LibvirtNative;

/** Loading starts libvirt's event loop. */
export function loadLibvirt(): LibvirtNative {
  return load("../build/libvirt.node");
}

// SPDX-License-Identifier: Apache-2.0
// Limits and counts the open streams. Except for captures, the metrics have KubeVirt's names.
import type { MetricFamily } from "@patchbay/core/metrics";
import { SHARE_KEYS, SharePool, tryAcquireAll, type Release } from "@patchbay/base";
import type { StreamTarget } from "./paths.ts";

/** Maximum number of open streams per VMI. A browser page opens several streams. */
const STREAMS_PER_VMI_MAX = 32;
/** Limits on open streams of a namespace and of all namespaces. Each stream has its own connection to a node. */
const STREAM_LIMITS = { max: 1024, share: 256 };

const METRIC_FAMILIES = {
  console: {
    name: "kubevirt_console_active_connections",
    help: "Open serial consoles, by VMI.",
  },
  vnc: { name: "kubevirt_vnc_active_connections", help: "Open screens, by VMI." },
  portforward: {
    name: "kubevirt_portforward_active_tunnels",
    help: "Open forwarded ports, by VMI.",
  },
  capture: {
    name: "patchbay_capture_active_connections",
    help: "Running packet captures, by VMI.",
  },
} as const;

export type StreamKind = keyof typeof METRIC_FAMILIES;

export function toStreamKind(target: StreamTarget): StreamKind {
  if (target.kind === "guest") return target.stream;
  return target.kind === "forward" ? "portforward" : target.kind;
}

export class ActiveStreams {
  readonly #open = new Set<StreamTarget>();
  readonly #namespaces = new SharePool(STREAM_LIMITS);
  readonly #vmis = new SharePool({ max: STREAM_LIMITS.max, share: STREAMS_PER_VMI_MAX });

  /** Registers a stream. Returns a function that unregisters the stream, or undefined if a limit is reached. */
  register(target: StreamTarget): Release | undefined {
    const release = tryAcquireAll([
      [this.#vmis, SHARE_KEYS.object(target)],
      [this.#namespaces, SHARE_KEYS.namespace(target.namespace)],
    ]);
    if (release === undefined) return undefined;
    const entry = { ...target };
    this.#open.add(entry);
    return () => {
      this.#open.delete(entry);
      release();
    };
  }

  families(): readonly MetricFamily[] {
    return Object.entries(METRIC_FAMILIES).map(([kind, { name, help }]) => {
      const counts = new Map<string, number>();
      for (const target of this.#open) {
        if (toStreamKind(target) !== kind) continue;
        const key = `${target.namespace}/${target.name}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      const samples = [...counts].map(([key, value]) => {
        const [namespace = "", vmi = ""] = key.split("/");
        return { labels: { namespace, vmi }, value };
      });
      return { name, help, type: "gauge", samples };
    });
  }
}

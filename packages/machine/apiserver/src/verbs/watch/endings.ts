// SPDX-License-Identifier: Apache-2.0
// Which watches end although their time is not over and their client is still there?
import { DEFINITIONS_BUCKET } from "../../custom/definition.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { VerbDeps } from "../deps.ts";
import type { WatchStream } from "./stream.ts";

/** Ends the stream when the server stops, or when the kind is no longer served. */
export function endWith(
  stream: WatchStream,
  deps: Pick<VerbDeps, "store" | "registry">,
  cause: { readonly kind: Kind; readonly stop: AbortSignal },
): void {
  const { stop } = cause;
  const { group, version, resource } = cause.kind;
  const end = () => {
    stream.end();
  };
  stop.addEventListener("abort", end);
  const unfollow = deps.store.follow({ bucket: DEFINITIONS_BUCKET }, () => {
    if (deps.registry.find(group, version, resource) === undefined) {
      end();
    }
  });
  stream.signal.addEventListener("abort", () => {
    stop.removeEventListener("abort", end);
    unfollow();
  });
}

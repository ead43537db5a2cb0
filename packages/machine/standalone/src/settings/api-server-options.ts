// SPDX-License-Identifier: Apache-2.0
// How the API server of a machine listens, by the machine's settings. Pure.
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core/errors";
import { numberOf, textOf } from "../data-dir/json.ts";
import { isStrict } from "./settings.ts";

/** Options of the API server that settings decide. */
export interface ApiServerOptions {
  readonly port: number;
  /** The address chosen for pods, beside the loopback address; unset: none. */
  readonly secondHost?: string;
  /** Network of Services; unset: the default, as on machines made before it could be chosen. */
  readonly serviceNetwork?: string;
  readonly strict: boolean;
}

/**
 * Reads them from the settings file; `port` overrides the port in it.
 * @throws AppError with STANDALONE_SETTING_INVALID when neither has a port
 */
export function apiServerOptions(
  port: number | undefined,
  kept: JsonObject | undefined,
): ApiServerOptions {
  const chosen = port ?? numberOf(kept, "apiPort");
  if (chosen === undefined) {
    throw new AppError("STANDALONE_SETTING_INVALID", { causes: "--port is missing" });
  }
  const secondHost = textOf(kept, "apiAddress");
  const serviceNetwork = textOf(kept, "serviceSubnet");
  return {
    port: chosen,
    ...(secondHost !== "" && { secondHost }),
    ...(serviceNetwork !== "" && { serviceNetwork }),
    strict: isStrict(kept),
  };
}

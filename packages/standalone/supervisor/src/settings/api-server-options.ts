// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import { readNumber, readText } from "../data-dir/json.ts";

export interface ApiServerOptions {
  readonly port: number;
  /** Additional address at which pods reach the API server; unset if the server listens only on the loopback address. */
  readonly secondHost?: string;
  /** Network of Services; unset if an older version wrote the settings file. */
  readonly serviceNetwork?: string;
}

/** Returns the API server's options. `port` overrides the settings file. @throws AppError with STANDALONE_SETTING_INVALID without a port */
export function buildApiServerOptions(
  port: number | undefined,
  stored: JsonObject | undefined,
): ApiServerOptions {
  const chosenPort = port ?? readNumber(stored, "apiPort");
  if (chosenPort === undefined) {
    throw new AppError("STANDALONE_SETTING_INVALID", { causes: "--port is missing" });
  }
  const secondHost = readText(stored, "apiAddress");
  const serviceNetwork = readText(stored, "serviceSubnet");
  return {
    port: chosenPort,
    ...(secondHost !== "" && { secondHost }),
    ...(serviceNetwork !== "" && { serviceNetwork }),
  };
}

// SPDX-License-Identifier: Apache-2.0
// Validation of webhooks' clientConfig and of Service references. Source: Kubernetes apiserver util/webhook.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import { subdomainFault } from "../../meta/names.ts";
import { isFields, asList, textAt, valueAt } from "../../objects/json.ts";

const PORT_MAX = 65_535;
const URL_FORMAT_HINT = "; desired format: https://host[/path]";

export function portCauses(service: unknown, field: string): Cause[] {
  const port = Number(valueAt(service, "port") ?? 443);
  return port >= 1 && port <= PORT_MAX
    ? []
    : [
        invalidValue(
          `${field}.port`,
          port,
          "port is not valid: must be between 1 and 65535, inclusive",
        ),
      ];
}

function splitPath(path: string): readonly string[] {
  return path.replace(/^\//, "").replace(/\/$/, "").split("/");
}

function pathCauses(path: string, field: string): Cause[] {
  if (path === "" || path === "/") {
    return [];
  }
  if (path === "//") {
    return [invalidValue(field, path, "segment[0] may not be empty")];
  }
  const startCauses = path.startsWith("/")
    ? []
    : [invalidValue(field, path, "must start with a '/'")];
  const segmentCauses = splitPath(path).flatMap((segment, index) => {
    const segmentName = `segment[${String(index)}]`;
    const fault = segment === "" ? undefined : subdomainFault(segment);
    if (segment === "") {
      return [invalidValue(field, path, `${segmentName} may not be empty`)];
    }
    return fault === undefined ? [] : [invalidValue(field, path, `${segmentName}: ${fault}`)];
  });
  return [...startCauses, ...segmentCauses];
}

function serviceCauses(service: unknown, field: string): Cause[] {
  const missingFields = (["name", "namespace"] as const)
    .filter((key) => textAt(service, key) === "")
    .map((key) => requiredValue(`${field}.${key}`, `service ${key} is required`));
  return [
    ...missingFields,
    ...portCauses(service, field),
    ...pathCauses(textAt(service, "path"), `${field}.path`),
  ];
}

function urlCauses(text: string, field: string): Cause[] {
  // Rejects `:///`, which URL.canParse accepts: the URL parser would use the first part of the path as the host.
  if (!URL.canParse(text) || text.includes(":///")) {
    const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1] ?? "";
    return scheme === "https"
      ? [invalidValue(field, "", `host must be specified${URL_FORMAT_HINT}`)]
      : [invalidValue(field, scheme, `'https' is the only allowed URL scheme${URL_FORMAT_HINT}`)];
  }
  const url = new URL(text);
  const checks: readonly (readonly [boolean, string, string])[] = [
    [
      url.protocol !== "https:",
      url.protocol.replace(/:$/, ""),
      `'https' is the only allowed URL scheme${URL_FORMAT_HINT}`,
    ],
    [url.host === "", url.host, `host must be specified${URL_FORMAT_HINT}`],
    [
      url.username !== "" || url.password !== "",
      [url.username, url.password].filter((part) => part !== "").join(":"),
      "user information is not permitted in the URL",
    ],
    [url.hash !== "", url.hash.slice(1), "fragments are not permitted in the URL"],
    [url.search !== "", url.search.slice(1), "query parameters are not permitted in the URL"],
  ];
  return checks
    .filter(([isRefused]) => isRefused)
    .map(([, value, message]) => invalidValue(field, value, message));
}

export function clientConfigCauses(config: unknown, field: string): Cause[] {
  const url = valueAt(config, "url");
  const service = valueAt(config, "service");
  if ((url === undefined) === !isFields(service)) {
    return [requiredValue(field, "exactly one of url or service is required")];
  }
  return isFields(service)
    ? serviceCauses(service, `${field}.service`)
    : urlCauses(String(url), `${field}.url`);
}

export function stringItems(value: unknown): readonly string[] {
  return asList(value).filter((item) => typeof item === "string");
}

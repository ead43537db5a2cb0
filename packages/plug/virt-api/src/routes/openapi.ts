// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents of the table of routes: one in v2, one for each version of the group in v3.
import { createHash } from "node:crypto";
import { names } from "@patchbay/api";
import { ROUTES, VERSIONS, type Route } from "./table.ts";

type Dialect = "v2" | "v3";

const GROUP_PATH = `/apis/${names.SUBRESOURCES_GROUP}`;

function parameterOf(name: string, dialect: Dialect): object {
  const type = { type: "string" };
  return {
    name,
    in: "path",
    required: true,
    ...(dialect === "v2" ? { ...type, uniqueItems: true } : { schema: type }),
  };
}

/** For example `v1PutVirtualmachinesStart`; a name for each operation, as clients' generators want. */
function operationIdOf({ method, path }: Route, version: string): string {
  const parts = path.split(/[^A-Za-z0-9]+/).filter((part) => part !== "" && part !== "namespaces");
  const words = [method, ...parts].map((part) => part.charAt(0).toUpperCase() + part.slice(1));
  return [version, ...words].join("");
}

function operationOf(route: Route, version: string, dialect: Dialect): object {
  const { about, isRefused, path, kind } = route;
  const group = names.SUBRESOURCES_GROUP;
  return {
    description: isRefused ? `Refused: Patchbay does not have ${about}.` : `${about}.`,
    operationId: operationIdOf(route, version),
    ...(dialect === "v2" ? { produces: ["application/json"] } : {}),
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => parameterOf(name, dialect)),
    responses: isRefused
      ? { "400": { description: "Bad Request" } }
      : { "200": { description: "OK" }, "202": { description: "Accepted" } },
    ...(kind === undefined ? {} : { "x-kubernetes-group-version-kind": { group, version, kind } }),
  };
}

function pathsOf(version: string, dialect: Dialect): Readonly<Record<string, object>> {
  const entries = ROUTES.map((route) => [
    `${GROUP_PATH}/${version}/${route.path}`,
    { [route.method]: operationOf(route, version, dialect) },
  ]);
  return Object.fromEntries(entries) as Readonly<Record<string, object>>;
}

function infoOf(release: string): object {
  return { title: "Patchbay's subresources", version: release };
}

/** `/openapi/v2`; `release` is that of virt-api, for example v0.1.0. */
export function swaggerOf(release: string): object {
  return {
    swagger: "2.0",
    info: infoOf(release),
    paths: Object.assign({}, ...VERSIONS.map((version) => pathsOf(version, "v2"))) as object,
    definitions: {},
  };
}

/** `/openapi/v3/apis/subresources.kubevirt.io/VERSION` */
export function openApi3Of(version: string, release: string): object {
  const paths = pathsOf(version, "v3");
  return { openapi: "3.0.0", info: infoOf(release), paths, components: { schemas: {} } };
}

/** `/openapi/v3`: where the documents are, by an address that changes with them. */
export function openApiIndexOf(release: string): object {
  const paths = VERSIONS.map((version) => {
    const text = JSON.stringify(openApi3Of(version, release));
    const hash = createHash("sha256").update(text).digest("hex").slice(0, 32).toUpperCase();
    const path = `apis/${names.SUBRESOURCES_GROUP}/${version}`;
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }] as const;
  });
  return { paths: Object.fromEntries(paths) };
}

// The configuration tables of all roles. A door of its own, apart from common's, so that a library user does not load them.

export { nearestName } from './nearest.ts';
export { decodeProperties, editProperties, escapeValue, type PropertyEntry, parseProperties } from './properties.ts';
export { BROKER_TABLES, NAMESRV_TABLES, parseAddressList, readBrokerSettings, readNamesrvSettings } from './roles.ts';
export type { Guard, Setting, SettingState, SettingTable, SettingType, SettingValue } from './setting.ts';
export { type Override, Settings, type SettingsFile, type SettingsInput } from './settings.ts';
export { allowedValues, parseValue } from './value.ts';

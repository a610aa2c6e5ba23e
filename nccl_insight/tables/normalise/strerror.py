"""What strerror() says in other languages: a program that calls setlocale() prints NCCL's reasons in the user's.

The texts are those of the message catalogs of the GNU C library, in lower case.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import polars as pl

_SAID: Final = {
    "operation not permitted": (
        "不允许的操作", "此項操作並不被允許", "許可されていない操作です", "명령을 허용하지 않음",
        "die operation ist nicht erlaubt", "opération non permise", "operación no permitida",
        "operazione non permessa", "operação não permitida", "операция не позволена",
        "operacja niedozwolona",
    ),
    "no such file or directory": (
        "没有那个文件或目录", "沒有此一檔案或目錄", "そのようなファイルやディレクトリはありません",
        "그런 파일이나 디렉터리가 없습니다", "datei oder verzeichnis nicht gefunden",
        "aucun fichier ou dossier de ce type", "no existe el fichero o el directorio",
        "file o directory non esistente", "ficheiro ou pasta inexistente",
        "arquivo ou diretório inexistente", "нет такого файла или каталога",
        "nie ma takiego pliku ani katalogu",
    ),
    "resource temporarily unavailable": (
        "资源暂时不可用", "資源暫時無法取得", "リソースが一時的に利用できません",
        "자원이 일시적으로 사용 불가능함", "die ressource ist zur zeit nicht verfügbar",
        "ressource temporairement non disponible", "recurso no disponible temporalmente",
        "risorsa temporaneamente non disponibile", "recurso temporariamente indisponível",
        "ресурс временно недоступен", "zasoby chwilowo niedostępne",
    ),
    "cannot allocate memory": (
        "无法分配内存", "無法配置記憶體", "メモリを確保できません", "메모리를 할당할 수 없습니다",
        "nicht genügend hauptspeicher verfügbar", "ne peut allouer de la mémoire",
        "no se pudo asignar memoria", "impossibile allocare memoria", "impossível alocar memória",
        "não foi possível alocar memória", "невозможно выделить память", "nie można przydzielić pamięci",
    ),
    "permission denied": (
        "权限不够", "拒絕不符權限的操作", "許可がありません", "허가 거부", "keine berechtigung",
        "permission non accordée", "permiso denegado", "permesso negato", "permissão recusada",
        "permissão negada", "отказано в доступе", "brak dostępu",
    ),
    "device or resource busy": (
        "设备或资源忙", "裝置或系統資源忙碌中", "デバイスもしくはリソースがビジー状態です",
        "장치나 자원이 동작 중", "das gerät oder die ressource ist belegt",
        "périphérique ou ressource occupé", "dispositivo o recurso ocupado",
        "dispositivo o risorsa occupata", "dispositivo ou recurso ocupado",
        "dispositivo ou recurso está ocupado", "устройство или ресурс занято",
        "urządzenie lub zasoby zajęte",
    ),
    "no such device": (
        "没有那个设备", "沒有此一裝置", "そのようなデバイスはありません", "그런 장치가 없음",
        "kein passendes gerät gefunden", "aucun périphérique de ce type", "no existe el dispositivo",
        "nessun device corrisponde", "dispositivo inexistente", "нет такого устройства",
        "nie ma takiego urządzenia",
    ),
    "invalid argument": (
        "无效的参数", "不適用的引數", "無効な引数です", "부적절한 인수", "das argument ist ungültig",
        "argument invalide", "argumento inválido", "argomento non valido", "недопустимый аргумент",
        "zły argument",
    ),
    "too many open files": (
        "打开的文件过多", "開啟太多檔案", "ファイルを開きすぎです", "열린 파일이 너무 많음",
        "zu viele offene dateien", "trop de fichiers ouverts", "demasiados ficheros abiertos",
        "troppi file aperti", "demasiados ficheiros abertos", "muitos arquivos abertos",
        "слишком много открытых файлов", "za dużo otwartych plików",
    ),
    "no space left on device": (
        "设备上没有空间", "裝置上已無多餘空間", "デバイスに空き領域がありません",
        "장치에 남은 공간이 없음", "auf dem gerät ist kein speicherplatz mehr verfügbar",
        "aucun espace disponible sur le périphérique", "no queda espacio en el dispositivo",
        "spazio esaurito sul device", "sem espaço livre no dispositivo",
        "não há espaço disponível no dispositivo", "на устройстве не осталось свободного места",
        "brak miejsca na urządzeniu",
    ),
    "broken pipe": (
        "断开的管道", "管線損壞", "파이프가 깨어짐", "datenübergabe unterbrochen (broken pipe)",
        "relais brisé (pipe)", "tubería rota", "pipe interrotta", "túnel quebrado", "pipe quebrado",
        "обрыв канала", "przerwany potok",
    ),
    "protocol not supported": (
        "不支持的协议", "協定不支援", "プロトコルはサポートされていません", "규약을 지원하지 않음",
        "das protokoll wird nicht unterstützt", "protocole non supporté", "protocolo no soportado",
        "protocollo non supportato", "protocolo não suportado", "protocolo sem suporte",
        "протокол не поддерживается", "protokół nie obsługiwany",
    ),
    "address family not supported by protocol": (
        "协议不支持的地址族", "位址族群不被協定所支援",
        "アドレスファミリはプロトコルによってサポートされていません", "주소군을 규약에서 지원하지 않음",
        "die adressfamilie wird von der protokollfamilie nicht unterstützt",
        "famille d'adresses non supportée par le protocole",
        "esta familia de direcciones no está soportada por el protocolo",
        "famiglia di indirizzi non supportata dal protocollo",
        "família de endereços não suportada pelo protocolo",
        "família de endereços sem suporte pelo protocolo",
        "семейство адресов не поддерживается протоколом", "rodzina adresów nie obsługiwana przez protokół",
    ),
    "address already in use": (
        "地址已在使用", "位址已經有在使用", "アドレスは既に使用中です", "주소가 이미 사용 중입니다",
        "die adresse wird bereits verwendet", "adresse déjà utilisée", "la dirección ya se está usando",
        "indirizzo già in uso", "endereço já em uso", "адрес уже используется", "adres jest już w użyciu",
    ),
    "cannot assign requested address": (
        "无法指定被请求的地址", "無法指定所需的位址", "要求アドレスに割り当てられません",
        "요청한 주소를 배정할 수 없습니다", "die angeforderte adresse kann nicht zugewiesen werden",
        "ne peut attribuer l'adresse demandée", "no se puede asignar la dirección solicitada",
        "impossibile assegnare l'indirizzo richiesto", "impossível atribuir o endereço pedido",
        "não foi possível acessar o endereço requisitado", "невозможно назначить запрошенный адрес",
        "nie można przypisać żądanego adresu",
    ),
    "network is down": (
        "网络已关闭", "網路停擺", "ネットワークが落ちています", "네트워크가 죽었습니다",
        "das netzwerk ist nicht aktiv", "le réseau ne fonctionne pas", "la red no está activa",
        "la rete non è disponibile", "a rede está em baixo", "a rede não responde", "сеть не работает",
        "sieć jest wyłączona",
    ),
    "network is unreachable": (
        "网络不可达", "無法接觸網路", "ネットワークに届きません", "네트워크가 접근 불가능합니다",
        "das netzwerk ist nicht erreichbar", "le réseau n'est pas accessible", "la red es inaccesible",
        "la rete non è raggiungibile", "rede inacessível", "a rede está fora de alcance",
        "сеть недоступна", "sieć jest niedostępna",
    ),
    "software caused connection abort": (
        "由软件导致的连接断开", "軟體造成連線中斷", "ソフトウェアが接続を中断しました",
        "소프트웨어가 연결 중단을 초래했습니다", "das programm verursachte den abbruch der verbindung",
        "le logiciel a provoqué l'abandon de la connexion", "el programa provocó el fin de la conexión",
        "connessione interrotta per un problema software", "o programa abortou a ligação",
        "término de conexão causada por software", "программа вызвала разрыв соединения",
        "oprogramowanie spowodowało przerwanie połączenia",
    ),
    "connection reset by peer": (
        "连接被对方重设", "連線被對方重設", "接続が相手からリセットされました", "상대편이 연결을 끊음",
        "die verbindung wurde vom kommunikationspartner zurückgesetzt",
        "connexion ré-initialisée par le correspondant", "conexión reinicializada por la máquina remota",
        "connessione interrotta dal corrispondente", "ligação reposta pelo peer",
        "conexão fechada pela outra ponta", "соединение разорвано другой стороной",
        "połączenie zerwane przez drugą stronę", "连接被对端重置", "连接被对方重置",
    ),
    "no buffer space available": (
        "没有可用的缓冲区空间", "沒有可用的緩衝空間了", "利用可能な空きバッファがありません",
        "사용 가능한 버퍼 공간이 없음", "kein hauptspeicher für den puffer verfügbar",
        "aucun espace tampon disponible", "no queda espacio para memoria intermedia",
        "nessuno spazio di buffer disponibile", "sem espaço disponível no buffer",
        "não há espaço de buffer disponível", "недостаточно буферного пространства",
        "brak miejsca w buforze",
    ),
    "transport endpoint is not connected": (
        "传输端点尚未连接", "傳輸的兩端尚未連線", "通信端点が接続されていません",
        "전송 종료지점이 연결되어 있지 않습니다", "der socket ist nicht verbunden",
        "noeud final de transport n'est pas connecté", "el otro extremo de la conexión no está conectado",
        "il socket di destinazione non è connesso", "ponto final do transporte não está ligado",
        "ponto final de transporte não está conectado", "конечная точка передачи не подсоединена",
        "drugi koniec nie jest połączony",
    ),
    "connection timed out": (
        "连接超时", "連線超過時間", "接続がタイムアウトしました", "연결 시간 초과",
        "die wartezeit für die verbindung ist abgelaufen",
        "connexion terminée par expiration du délai d'attente", "expiró el tiempo de conexión",
        "connessione scaduta", "ligação expirada", "tempo esgotado para conexão",
        "время ожидания соединения истекло", "przekroczony czas oczekiwania na połączenie",
    ),
    "connection refused": (
        "拒绝连接", "連線被拒絕", "接続を拒否されました", "연결이 거부됨", "verbindungsaufbau abgelehnt",
        "connexion refusée", "conexión rehusada", "connessione rifiutata", "ligação recusada",
        "conexão recusada", "в соединении отказано", "połączenie odrzucone",
    ),
    "host is down": (
        "主机关闭", "遠端系統已停機了", "ホストが落ちています", "호스트가 죽었습니다",
        "der rechner ist nicht aktiv", "l'hôte cible est arrêté ou en panne",
        "el `host' no está operativo", "l'host non è attivo", "o anfitrião está em baixo",
        "host está desligado", "узел выключен", "urządzenie jest wyłączone",
    ),
    "no route to host": (
        "没有到主机的路由", "找不到通往該主機的路由路徑", "ホストへの経路がありません",
        "호스트로 갈 루트가 없음", "keine route zum zielrechner",
        "aucun chemin d'accès pour atteindre l'hôte cible", "no existe ninguna ruta hasta el `host'",
        "nessun instradamento per l'host", "sem caminho para o anfitrião", "não há rota para o host",
        "нет маршрута до узла", "brak trasy do hosta",
    ),
    "operation now in progress": (
        "操作现在正在进行", "操作正在處理", "現在処理中の操作です", "지금 진행 중인 명령",
        "die operation ist jetzt in bearbeitung", "opération maintenant en cours", "operación en curso",
        "operazione ora in corso", "operação agora em curso", "operação agora em progresso",
        "операция выполняется в данный момент", "operacja jest właśnie wykonywana",
    ),
}  # fmt: skip
_ENGLISH: Final = {said: english for english, texts in _SAID.items() for said in texts}
_COLUMNS: Final = ("error_text", "errno_text")
_MOST: Final = 4096


def in_english(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the reasons of system calls in English, for comparisons."""
    columns = [c for c in _COLUMNS if rows.schema.get(c) == pl.String]
    if not columns and "_body" in rows.columns:
        columns = ["_body"]
    for column in columns:
        texts = rows[column].drop_nulls().unique()
        if len(texts) > _MOST:
            continue
        new = {
            text: english
            for text in texts.to_list()
            if (english := _body(text) if column == "_body" else _reason(text)) is not None
        }
        if new:
            rows = rows.with_columns(pl.col(column).replace(new))
    return rows


@cache
def _any() -> re.Pattern[str]:
    """Any of the texts; compiled for the first log that needs it."""
    return re.compile("|".join(re.escape(t) for t in sorted(_ENGLISH, key=len, reverse=True)))


def _reason(text: str) -> str | None:
    return _ENGLISH.get(text.strip().rstrip(".").lower())


def _body(text: str) -> str | None:
    if text.isascii():
        return None
    said = _any().sub(lambda found: _ENGLISH[found[0]], text.lower())
    return said if said != text.lower() else None
